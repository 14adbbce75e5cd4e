"""`anyshape bench`: the rates that the cost model works with, and their measurement; `anyshape bench llm` is in `bench_llm`."""

from importlib.util import find_spec
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from anyshape.cli import bench_llm
from anyshape.support.errors import OptionError
from anyshape.support.machine import Rates, processor_name
from anyshape.support.options import Options

group = typer.Typer(name="bench", add_completion=False, pretty_exceptions_enable=False)
group.command("llm")(bench_llm.command)


@group.callback(invoke_without_command=True)
def command(
    context: typer.Context,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Measure the rates of this machine, and keep them for later compilations."),
    ] = False,
) -> None:
    """Show the numbers by which the cost model decides how work is divided; with --calibrate, measure them first.

    `anyshape bench llm MODEL.gguf` measures a language model instead.
    """
    if context.invoked_subcommand is not None:
        return
    from anyshape.driver.machine import calibrated_machine

    console = Console()
    folder = Options.from_environment().cache
    if calibrate:
        if folder is None:
            raise OptionError(
                "measured rates are kept in the cache's folder, and there is none",
                where="ANYSHAPE_CACHE",
                got="off",
                expected="a folder",
                remedy="unset ANYSHAPE_CACHE, or set it to a folder",
            )
        from anyshape.driver.calibrate import measure_rates
        from anyshape.driver.machine import store_rates

        with console.status("measuring, some seconds on an idle machine"):
            rates = measure_rates()
        console.print(f"kept in {store_rates(folder, processor_name(), rates)}", soft_wrap=True)
    machine = calibrated_machine(folder)
    origin = "measured" if machine.measured else "not measured; the usual rates of such vectors"
    console.print(f"{processor_name()}: {origin}", soft_wrap=True)
    console.print(rates_table(machine.rates))
    if machine.measured is None:
        console.print("`anyshape bench --calibrate` measures them.")
    if find_spec("matplotlib") and find_spec("onnxruntime"):
        console.print("`python -m bench`, in the source tree, measures models and layers beside other engines.")


def rates_table(rates: Rates) -> Table:
    """The rates with their units, as the cost model's documentation names them."""
    rows = [
        ("multiply-add, f32, one core", f"{rates.fma:.1f} flop/ns"),
        *(
            (f"load from {name}, one core", f"{rate:.1f} byte/ns")
            for name, rate in (("L1", rates.l1), ("L2", rates.l2), ("L3", rates.l3), ("memory", rates.memory))
        ),
        ("simple operation on a vector", f"{rates.simple:.3f} ns"),
        ("exponential of a vector", f"{rates.transcendental:.2f} ns"),
        ("parallel region of two threads", f"{rates.region:.0f} ns"),
    ]
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*row)
    return table
