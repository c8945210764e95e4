SELECT pg_catalog.set_config('search_path', '', false);
CREATE TABLE public.pintgn_events (
    number bigint NOT NULL,
    src text,
    dst text,
    t bigint NOT NULL,
    op smallint,
    features bytea,
    key text,
    checksum bigint NOT NULL
);
CREATE TABLE public.pintgn_held (
    number bigint NOT NULL,
    src text,
    dst text,
    t bigint NOT NULL,
    op smallint,
    features bytea,
    key text,
    checksum bigint NOT NULL
);
CREATE TABLE public.pintgn_keys (
    key bytea NOT NULL,
    number bigint NOT NULL,
    checksum bigint NOT NULL
);
CREATE TABLE public.pintgn_log (
    single boolean DEFAULT true NOT NULL,
    format integer NOT NULL,
    log text NOT NULL,
    total bigint DEFAULT 0 NOT NULL,
    dropped bigint DEFAULT 0 NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    rewound bigint DEFAULT 0 NOT NULL,
    lost bigint DEFAULT 0 NOT NULL,
    keyed bigint DEFAULT 0 NOT NULL,
    CONSTRAINT pintgn_log_single_check CHECK (single)
)
WITH (fillfactor='50');
CREATE TABLE public.pintgn_models (
    version bigint NOT NULL,
    facts text NOT NULL
);
CREATE TABLE public.pintgn_snapshots (
    run text NOT NULL,
    weights text NOT NULL,
    number bigint NOT NULL,
    path text NOT NULL,
    part integer NOT NULL,
    data bytea NOT NULL
);
INSERT INTO public.pintgn_events VALUES (1, 'u0', 'v0', 100, NULL, NULL, 'k0', 1973660220);
INSERT INTO public.pintgn_events VALUES (2, 'u1', 'v1', 101, NULL, NULL, 'k1', 1713489662);
INSERT INTO public.pintgn_events VALUES (3, 'u2', 'v2', 102, NULL, NULL, 'k2', 1386705852);
INSERT INTO public.pintgn_events VALUES (4, 'u3', 'v3', 103, NULL, NULL, 'k3', 1092951930);
INSERT INTO public.pintgn_events VALUES (5, 'u4', 'v4', 104, NULL, NULL, 'k4', 1001003324);
INSERT INTO public.pintgn_held VALUES (1, 'u2', 'v3', 110, NULL, NULL, 'k5', 3496049696);
INSERT INTO public.pintgn_keys VALUES ('\x33194fc78745d7a8f716f6fbe351a3eb', 1, 1973660221);
INSERT INTO public.pintgn_keys VALUES ('\xb2a8bbbb0d226965cb3fd9a44c5883e5', 2, 1713489660);
INSERT INTO public.pintgn_keys VALUES ('\x3d59be97b0b883fe7ae8d9be18cbb5ae', 3, 1386705855);
INSERT INTO public.pintgn_keys VALUES ('\xb78a522842df32ef443c5ca3f7d086e7', 4, 1092951934);
INSERT INTO public.pintgn_keys VALUES ('\x6be714d5739e678a70006a0fff0d0d67', 5, 1001003321);
INSERT INTO public.pintgn_log VALUES (true, 4, 'log', 5, 0, 1, 0, 0, 0);
INSERT INTO public.pintgn_models VALUES (0, '');
ALTER TABLE ONLY public.pintgn_events
    ADD CONSTRAINT pintgn_events_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.pintgn_held
    ADD CONSTRAINT pintgn_held_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.pintgn_keys
    ADD CONSTRAINT pintgn_keys_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.pintgn_log
    ADD CONSTRAINT pintgn_log_pkey PRIMARY KEY (single);
ALTER TABLE ONLY public.pintgn_snapshots
    ADD CONSTRAINT pintgn_snapshots_pkey PRIMARY KEY (run, weights, number, path, part);
