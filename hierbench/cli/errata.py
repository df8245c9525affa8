"""`hierbench errata`: the errors known in the released evaluators."""

from __future__ import annotations

from hierbench.cli._shared import Json, print_json, print_text


def errata(as_json: Json = False) -> None:
    """Errors known in the released evaluators."""
    from dataclasses import asdict

    from hierbench.errata import errata, protocols

    if as_json:
        print_json({"protocols": protocols(), "errata": [asdict(erratum) for erratum in errata()]})
        return
    for name, what in protocols().items():
        print_text(what, f"--protocol {name}", 22)
    for number, erratum in enumerate(errata(), 1):
        print(f"\n{number}. {erratum.title}")
        mended = "mended by --protocol corrected" if erratum.mended else "stated only"
        print_text(f"{erratum.id} ({mended})", "   Id", 14)
        for label in ("what", "where", "effect", "released", "corrected"):
            print_text(getattr(erratum, label), f"   {label.capitalize()}", 14)
