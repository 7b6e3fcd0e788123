"""This machine with TVM's virtual machine, where a trainer would take the native runtime."""

from dataclasses import dataclass

from odtc.runtime_rpc.sessions.local import LocalSession


@dataclass(frozen=True)
class VirtualMachineHere(LocalSession):
    """This process, whose steps TVM takes: to compare both, or to be in the way of its calls."""

    @property
    def runs_programs(self) -> bool:
        """Not here."""
        return False
