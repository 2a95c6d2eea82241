"""The colours of drawings, light and dark, as CSS; forms and dashes say the same without colour."""

from __future__ import annotations

from chainrule.dataclass import dataclass
from chainrule.explain.drawing.bands import Role

SERIF = (
    "'STIX Two Math','STIX Two Text','Cambria Math','Latin Modern Math','Times New Roman',"
    "'Liberation Serif',serif"
)
SANS = "system-ui,'Segoe UI','Helvetica Neue',Arial,sans-serif"


@dataclass(frozen=True)
class Palette:
    """Page, words, secondary words, frames; the lines of each direction; fills and outlines."""

    page: str
    ink: str
    muted: str
    frame: str
    forward: str
    backward: str
    saved: str
    update: str
    fills: dict[Role, str]


LIGHT = Palette(
    page="#ffffff",
    ink="#1a1a1a",
    muted="#555555",
    frame="#f4f6f8",
    forward="#1a1a1a",
    backward="#9a4b00",
    saved="#7a4fa3",
    update="#1b6e54",
    fills={
        Role.VARIABLE: "#ffffff",
        Role.PARAMETER: "#66bfff",
        Role.OPERATOR: "#b2d9ff",
        Role.GRADIENT: "#ffe0b3",
        Role.PARAMETER_GRADIENT: "#ffb14e",
        Role.BACKWARD: "#ffd08a",
        Role.RESULT: "#e3f4ec",
        Role.UPDATE: "#a9dcc5",
        Role.COPY: "#ffffff",
    },
)
DARK = Palette(
    page="#15181d",
    ink="#f0f0f0",
    muted="#a8adb5",
    frame="#1c2027",
    forward="#d8dce2",
    backward="#ffae57",
    saved="#c3a2ea",
    update="#6fd0ab",
    fills={
        Role.VARIABLE: "#262b33",
        Role.PARAMETER: "#17649d",
        Role.OPERATOR: "#2b4866",
        Role.GRADIENT: "#4d3515",
        Role.PARAMETER_GRADIENT: "#8a5200",
        Role.BACKWARD: "#6b4613",
        Role.RESULT: "#1e3a30",
        Role.UPDATE: "#275c48",
        Role.COPY: "#15181d",
    },
)
OUTLINES = {
    Role.VARIABLE: "forward",
    Role.PARAMETER: "forward",
    Role.OPERATOR: "forward",
    Role.GRADIENT: "backward",
    Role.PARAMETER_GRADIENT: "backward",
    Role.BACKWARD: "backward",
    Role.RESULT: "update",
    Role.UPDATE: "update",
    Role.COPY: "saved",
}
THICK = (Role.PARAMETER, Role.PARAMETER_GRADIENT)  # outlines: parameters stand out without colour
LINES = ("forward", "backward", "saved", "update")


def css(theme: str, scope: str) -> str:
    """The style sheet of a drawing whose root has the id `scope`: light, dark, or as the page."""
    if theme == "auto":
        dark = _colours(DARK, scope)
        return (
            _forms(scope) + _colours(LIGHT, scope) + f"@media (prefers-color-scheme:dark){{{dark}}}"
        )
    return _forms(scope) + _colours(DARK if theme == "dark" else LIGHT, scope)


def _forms(scope: str) -> str:
    thick = ",".join(f"#{scope} .{role} .box" for role in THICK)
    return "".join(
        f"#{scope} {rule}"
        for rule in (
            f"text{{font-family:{SERIF};text-anchor:middle}}",
            f".small{{font-family:{SANS};font-size:12px}}",
            f".note{{font-family:{SANS};font-size:12.5px;text-anchor:start}}",
            f".number{{font-family:{SANS};font-size:12px;text-anchor:end}}",
            f".title{{font-family:{SANS};font-size:13px;text-anchor:start}}",
            ".after{text-anchor:start}",
            ".before{text-anchor:end}",
            ".box{stroke-width:1.6}",
            ".bar{stroke-width:1}",
            ".line{fill:none;stroke-width:1.6}",
            ".saved-line{stroke-dasharray:5 3.5;stroke-width:1.4}",
            ".copy .box{stroke-dasharray:4 3;stroke-width:1.3}",
            ".frame{stroke-width:1}",
        )
    ) + f"{thick}{{stroke-width:2.8}}"  # fmt: skip


def _colours(palette: Palette, scope: str) -> str:
    rules = [
        f".page{{fill:{palette.page}}}",
        f"text{{fill:{palette.ink}}}",
        f".small,#{scope} .note,#{scope} .number,#{scope} .title{{fill:{palette.muted}}}",
        f".bar{{stroke:{palette.ink}}}",
        f".frame{{fill:{palette.frame};stroke:{palette.muted}}}",
    ]
    for line in LINES:
        colour = getattr(palette, line)
        rules.append(f".{line}-line{{stroke:{colour}}}")
        rules.append(f".{line}-head{{fill:{colour}}}")
    for role, fill in palette.fills.items():
        outline = getattr(palette, OUTLINES[role])
        rules.append(f".{role} .box{{fill:{fill};stroke:{outline}}}")
    return "".join(f"#{scope} {rule}" for rule in rules)
