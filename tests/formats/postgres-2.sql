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
    CONSTRAINT pintgn_log_single_check CHECK (single)
)
WITH (fillfactor='50');
CREATE TABLE public.pintgn_snapshot_parts (
    run text NOT NULL,
    weights text NOT NULL,
    number bigint NOT NULL,
    path text NOT NULL,
    part integer NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE public.pintgn_snapshots (
    run text NOT NULL,
    weights text NOT NULL,
    number bigint NOT NULL,
    manifest text NOT NULL,
    made timestamp with time zone DEFAULT now()
);
INSERT INTO public.pintgn_events VALUES (1, 'a0\0ü\\0\\', 'b0', 0, NULL, NULL, 'k0', 2758275148);
INSERT INTO public.pintgn_events VALUES (2, 'a1\0ü\\0\\', 'b1', 1, NULL, NULL, 'k1', 1626484764);
INSERT INTO public.pintgn_events VALUES (3, 'a2\0ü\\0\\', 'b2', 2, NULL, NULL, 'k2', 4131223209);
INSERT INTO public.pintgn_events VALUES (4, 'a3\0ü\\0\\', 'b3', 3, NULL, NULL, 'k3', 849917693);
INSERT INTO public.pintgn_events VALUES (5, 'a4\0ü\\0\\', 'b4', 4, NULL, NULL, 'k4', 13827462);
INSERT INTO public.pintgn_keys VALUES ('\x33194fc78745d7a8f716f6fbe351a3eb', 1, 2758275149);
INSERT INTO public.pintgn_keys VALUES ('\xb2a8bbbb0d226965cb3fd9a44c5883e5', 2, 1626484766);
INSERT INTO public.pintgn_keys VALUES ('\x3d59be97b0b883fe7ae8d9be18cbb5ae', 3, 4131223210);
INSERT INTO public.pintgn_keys VALUES ('\xb78a522842df32ef443c5ca3f7d086e7', 4, 849917689);
INSERT INTO public.pintgn_keys VALUES ('\x6be714d5739e678a70006a0fff0d0d67', 5, 13827459);
INSERT INTO public.pintgn_log VALUES (true, 2, 'log', 5, 0, 1, 0);
ALTER TABLE ONLY public.pintgn_events
    ADD CONSTRAINT pintgn_events_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.pintgn_keys
    ADD CONSTRAINT pintgn_keys_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.pintgn_log
    ADD CONSTRAINT pintgn_log_pkey PRIMARY KEY (single);
ALTER TABLE ONLY public.pintgn_snapshot_parts
    ADD CONSTRAINT pintgn_snapshot_parts_pkey PRIMARY KEY (run, weights, number, path, part);
ALTER TABLE ONLY public.pintgn_snapshots
    ADD CONSTRAINT pintgn_snapshots_pkey PRIMARY KEY (run, weights, number);
ALTER TABLE ONLY public.pintgn_snapshot_parts
    ADD CONSTRAINT pintgn_snapshot_parts_run_weights_number_fkey FOREIGN KEY (run, weights, number) REFERENCES public.pintgn_snapshots(run, weights, number) ON DELETE CASCADE;
