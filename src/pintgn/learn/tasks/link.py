"""Whether events happen: the question that every model answers, against negatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from pintgn.events.log import EventLog, Query
from pintgn.learn.loss import loss_of
from pintgn.learn.metrics import Scores, by_novelty
from pintgn.learn.settings import Training
from pintgn.learn.tasks.base import Asker, Groups, Measuring, Task, Truth
from pintgn.models.base import Model
from pintgn.models.registry import model_class

if TYPE_CHECKING:
    from pintgn.learn.evaluate import Evaluation, Target
    from pintgn.learn.negatives import Negatives
    from pintgn.learn.run import Run
    from pintgn.stream import Stream


class Link(Task):
    """Would these two meet? An event is told from random destinations and, by a second logit, from earlier pairs."""

    scores_links = True
    tells_from_negatives = True
    loss_terms = 2  # of events and of negatives
    rows: tuple[str, ...] = ("edgebank", "heuristic")

    def asker(self, run: Run, negatives: Negatives | None) -> Asker:
        from pintgn.learn.negatives import earlier_pairs, random_destination

        parts = run.parts
        draws = [negatives or random_destination(parts.train)] * run.settings.train.negatives_per_event
        if len(run.model.questions) > 1:
            draws.append(earlier_pairs(parts.trained))

        def ask(events: EventLog, rng: np.random.Generator) -> tuple[list[Query], Truth]:
            return [events.query, *(draw(events, rng) for draw in draws)], None

        return ask

    def loss(self, answers: list[Tensor], truth: Truth, settings: Training) -> Tensor:
        return loss_of(answers[0], answers[1:], settings)

    def learn_at_once(self, model: Model, columns: list[Tensor], truths: list[Truth], seed: int) -> None:
        model.learn(columns, seed)

    def chosen_by(self, settings: Training) -> str:
        return settings.choose_by

    def nothing(self) -> Groups:
        none = np.zeros(0)
        return by_novelty(Scores(none, none), none == 0, Scores.metrics)

    def validate(self, stream: Stream, run: Run, negatives: Negatives | None) -> Groups:
        from pintgn.learn.finish import replay

        return replay(stream, run, run.parts.val, negatives).figures["random"]

    def catch_up(
        self, run: Run, after_training: Callable[[], Stream], negatives: Negatives | None, measure_test: bool
    ) -> Any:
        from pintgn.learn.finish import catch_up_with_links

        return catch_up_with_links(run, after_training, negatives, measure_test)

    def measure_beside(self, run: Run, found: Any, negatives: Negatives | None) -> None:
        from pintgn.learn.finish import measure_links_beside

        measure_links_beside(run, found, negatives)

    def evaluate(self, run: Run, target: Target, how: Measuring) -> Evaluation:
        from pintgn.learn.evaluate import evaluate_links

        return evaluate_links(run, target, how)

    def row(self, name: str) -> Model:
        return model_class(name)()

    def title(self) -> str:
        return "random negatives"

    def shown(self, answers: np.ndarray) -> dict[str, Any]:
        return {"logit": answers}
