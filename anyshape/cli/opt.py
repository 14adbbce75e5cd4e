"""`anyshape opt`: any passes on any program text."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.printer import Printer
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError

from anyshape.dialects.context import new_context
from anyshape.dialects.dhlo import DhloOp
from anyshape.dialects.dhlo.verify import verify_graph
from anyshape.driver.pipeline import PASSES
from anyshape.passes.worklist import functions_of
from anyshape.support.errors import AnyshapeError, OptionError, VerifyError

SEPARATOR = "// -----"


def command(
    file: Annotated[Path, typer.Argument(help="Program text; - reads standard input.")],
    passes: Annotated[
        str, typer.Option("-p", "--passes", help=f"Passes to run, separated by commas: {', '.join(PASSES)}.")
    ] = "",
    split_input_file: Annotated[
        bool,
        typer.Option("--split-input-file", help=f"Treat the pieces between '{SEPARATOR}' as programs of their own."),
    ] = False,
    verify_diagnostics: Annotated[
        bool, typer.Option("--verify-diagnostics", help="Print errors in place of the program, and succeed.")
    ] = False,
    print_between_passes: Annotated[
        bool, typer.Option("--print-between-passes", help="Print the program after every pass but the last.")
    ] = False,
    print_op_generic: Annotated[
        bool, typer.Option("--print-op-generic", help="Print ops in the generic form.")
    ] = False,
    print_debuginfo: Annotated[bool, typer.Option("--print-debuginfo", help="Print source locations.")] = False,
) -> None:
    """Parse a program, verify it, run passes on it, verify it after each, and print it.

    A pass takes options in braces: `-p 'simplify,fold{limit=1024}'`. Arrays named by dhlo.weight are not part of the text, so nothing
    is folded from them here.
    """
    chosen = parse_passes(passes)
    text = sys.stdin.read() if str(file) == "-" else _read(file)

    def show(module: ModuleOp) -> None:
        Printer(print_generic_format=print_op_generic, print_debuginfo=print_debuginfo).print_op(module)
        print()

    for number, piece in enumerate(text.split(SEPARATOR) if split_input_file else [text]):
        if number:
            print(SEPARATOR)
        try:
            for title, module in stages(piece, chosen, str(file)):
                if title is None:
                    show(module)
                elif print_between_passes:
                    print(f"// after {title}")
                    show(module)
        except AnyshapeError as error:
            if not verify_diagnostics:
                raise
            print(error)


def parse_passes(text: str) -> list[ModulePass]:
    """The passes that `text` names, in order. OptionError for an unknown name lists all that there are."""
    try:
        specs = list(parse_pipeline(text))
    except ArgSpecParseError as error:
        raise OptionError("the list of passes does not parse", where="-p", got=str(error)) from error
    unknown = [spec.name for spec in specs if spec.name not in PASSES]
    if unknown:
        raise OptionError("unknown pass", where="-p", got=", ".join(unknown), expected=", ".join(sorted(PASSES)))
    try:
        return [PASSES[spec.name].from_spec(spec) for spec in specs]
    except ValueError as error:
        raise OptionError("wrong option of a pass", where="-p", got=str(error)) from error


def stages(text: str, passes: list[ModulePass], source: str) -> Iterator[tuple[str | None, ModuleOp]]:
    """The program after each pass but the last, with the pass's name, then the result, with None.

    Raises:
        VerifyError: the text does not parse, or the program breaks an invariant before or after a pass.
    """
    context = new_context()
    module = _parse(context, text, source)
    _verify(module, "the program as given")
    for left, each in zip(reversed(range(len(passes))), passes, strict=True):
        each.apply(context, module)
        _verify(module, f"the program after {each.name}")
        if left:
            yield each.name, module
    yield None, module


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError("cannot read the program", where=str(file), got=str(error)) from error


def _parse(context: Context, text: str, source: str) -> ModuleOp:
    try:
        return Parser(context, text, source).parse_module()
    except ParseError as error:
        raise VerifyError("the program does not parse", where=source, got=str(error).strip()) from error


def _verify(module: ModuleOp, what: str) -> None:
    """Every op's own rule; of a module that is one graph, the graph's invariants too."""
    try:
        module.verify()
    except DiagnosticException as error:
        raise VerifyError(f"{what} is not valid", got=str(error).strip()) from error
    functions = functions_of(module)
    if len(functions) == 1 and any(isinstance(op, DhloOp) for op in functions[0].body.block.ops):
        verify_graph(module)
