"""`groundline completion`."""

from typing import Final

import click
from click.shell_completion import get_completion_class

_SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands and options.

    \b
      eval "$(groundline completion bash)"       in ~/.bashrc
      eval "$(groundline completion zsh)"        in ~/.zshrc
      groundline completion fish | source        in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    program = context.find_root()
    name = program.info_name or "groundline"
    click.echo(kind(program.command, {}, name, "_GROUNDLINE_COMPLETE").source())
