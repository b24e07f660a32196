"""``muster run``: the controller itself, and how settings become flags."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from queues.errors import MusterError

if TYPE_CHECKING:
    from admission.settings import Settings


#: Settings that name the ledger's database.
DATABASE: Final = ("dsn", "dsn_file")
#: Settings that name a cluster, and an installation in one.
CONNECTION: Final = ("kubeconfig", "context")
INSTALLATION: Final = (*CONNECTION, "namespace")


class SettingsCommand(click.Command):
    """A command with a flag for each setting, read from admission.settings only when it is called."""

    def __init__(self, *, only: tuple[str, ...] | None = None, **given: Any) -> None:
        super().__init__(**given)
        #: Settings that are offered. None for all.
        self.only = only

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Flags of the settings, then the command's own."""
        return [*_flags(self.only), *super().get_params(ctx)]


def _flags(only: tuple[str, ...] | None) -> list[click.Parameter]:
    from admission.settings import Settings

    flags: list[click.Parameter] = [
        click.Option(
            ["--config"], metavar="FILE", type=click.Path(path_type=Path), help="YAML file of settings."
        )
    ]
    for name, field in Settings.model_fields.items():
        if only is None or name in only:
            default = _default(field.default)
            flags.append(
                click.Option(
                    [f"--{name.replace('_', '-')}", name],
                    metavar=_metavar(name),
                    help=f"{field.description}" + (f" [{default}]" if default else ""),
                )
            )
    return flags


def _default(value: object) -> str:
    """A default as users write it; "": none is shown."""
    match value:
        case str():
            return value
        case tuple():
            return ",".join(value)
        case bool():
            return str(value).lower()
        case int() | float():
            return f"{value:g}"
        case _:
            return ""


def _metavar(name: str) -> str:
    for ending, metavar in (
        ("_seconds", "SECONDS"),
        ("_listen", "HOST:PORT"),
        ("_url", "URL"),
        ("_dir", "DIRECTORY"),
        ("_mib", "MIB"),
        ("_count", "COUNT"),
    ):
        if name.endswith(ending):
            return metavar
    return {"kubeconfig": "FILE", "dsn": "DSN", "dsn_file": "FILE", "api_concurrency": "COUNT"}.get(
        name, "TEXT"
    )


def settings_from(flags: dict[str, Any]) -> "Settings":
    """Settings from flags, environment and file. Raises InvalidSettings."""
    from admission.settings import read

    file = flags.pop("config", None)
    return read(flags=flags, file=file)


@click.command(cls=SettingsCommand, short_help="Run the controller.")
def run(**flags: Any) -> int:
    """Run the controller until a signal stops it.

    Every flag can be set in the environment (MUSTER_LEASE_SECONDS) or a YAML file (leaseSeconds) as well;
    flags count more than the environment, and that more than the file.
    """
    import logging

    import uvloop

    settings = settings_from(flags)

    from admission import logs

    logs.configure(form=settings.log_format, level=settings.log_level)
    try:
        from admission.controller import run as run_controller

        return uvloop.run(run_controller(settings))
    except MusterError as error:
        logging.getLogger(__name__).critical("%s", error)
    except Exception:  # a fault of Muster: the log needs its place
        logging.getLogger(__name__).critical("Muster failed", exc_info=True)
    return 1
