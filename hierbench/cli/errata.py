"""`hierbench errata`: the errors known in the released evaluators."""

from __future__ import annotations

import textwrap

from hierbench.cli._shared import Json, print_json, width


def errata(as_json: Json = False) -> None:
    """Errors known in the released evaluators."""
    from dataclasses import asdict

    from hierbench.errata import errata, protocols

    if as_json:
        print_json({"protocols": protocols(), "errata": [asdict(erratum) for erratum in errata()]})
        return
    for name, what in protocols().items():
        _field(f"--protocol {name}", what, 22)
    for number, erratum in enumerate(errata(), 1):
        print(f"\n{number}. {erratum.title}")
        _field(
            "   Id",
            f"{erratum.id} ({'mended by --protocol corrected' if erratum.mended else 'stated only'})",
            14,
        )
        for label in ("what", "where", "effect", "released", "corrected"):
            _field(f"   {label.capitalize()}", getattr(erratum, label), 14)


def _field(label: str, text: str, indent: int) -> None:
    print(textwrap.fill(text, width(), initial_indent=label.ljust(indent), subsequent_indent=" " * indent))
