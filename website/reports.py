"""Writes the report pages of the example programs, and the page of the site that shows them."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE / "programs"))
from catalogue import PROGRAMS, graph_of, inputs_of  # noqa: E402

import chainrule as cr  # noqa: E402
from chainrule.examples.digits import Settings, begin, trainer_of  # noqa: E402

PAGE = """---
hide:
  - navigation
  - toc
  - footer
---

# Reports

Each of these is one file, made by `cr.report`: walk through the step, forward and backward, value by value. [The report page](report.md) says what it shows. The first is of a network after three epochs on the handwritten digits; the others run the programs of the [playground](playground.md) once, on random arrays.

<p class="cr-reports">
{links}
</p>

<iframe class="cr-report-frame" name="report" title="Report page" src="{first}"></iframe>
"""  # noqa: E501
LINK = '<a class="md-button" href="{file}" target="report">{title}</a>'


def write(pages: Path) -> None:
    """Writes `reports/` and reports.md into the folder of pages."""
    folder = pages / "reports"
    folder.mkdir(parents=True)
    training = begin(Settings(epochs=3, hidden=32), executor="reference")
    trainer = trainer_of(training, progress=False)
    for _ in trainer.epochs(3):
        pass
    batch = {"x": training.train.x[:64], "y": training.train.y[:64]}
    trained = folder / "digits.html"
    cr.report(trainer.step, batch, trained, state=trainer.state, history=trainer.history)
    titles = {"digits": "Trained on digits"}
    for program in PROGRAMS:
        graph = graph_of(program)
        cr.report(graph, inputs_of(graph), folder / f"{program.name}.html")
        titles[program.name] = program.title
    files = {name: f"reports/{name}.html" for name in titles}
    links = [LINK.format(file=files[name], title=title) for name, title in titles.items()]
    page = PAGE.format(links="\n".join(links), first=files["digits"])
    (pages / "reports.md").write_text(page, encoding="utf-8")
