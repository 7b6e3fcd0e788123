"""How much a GPU computes and moves in a second, for models of time."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """Rates of a GPU.

    Attributes:
        arithmetic: float32 operations a second.
        memory: bytes a second that kernels read and write.
        launch: seconds of a launch beyond what it does.
        known: of which device they were measured; '' where nobody has published them.
    """

    arithmetic: float
    memory: float
    launch: float
    known: str = ""


# Seconds between the start and the end of a kernel that does nothing: "more than 20 us" on several
# Mali (docs/phones.md). Of others nothing is published.
_PHONE_LAUNCH = 20e-6
# Of no phone's GPU in particular: as many operations for a byte as the one in the middle below has.
OF_PHONES = Rates(200e9, 15e9, _PHONE_LAUNCH)
# A large product and a copy of PyTorch's, and the shortest kernels through OpenCL.
OF_H100 = Rates(51.7e12, 2.86e12, 4e-6, "NVIDIA H100")


def _measured(arithmetic: float, memory: float, known: str) -> Rates:
    return Rates(arithmetic * 1e9, memory * 1e9, _PHONE_LAUNCH, known)


# By the names of `odtc.backends.gpu.known`: multiply-adds and copies, measured; docs/phones.md says
# by whom. Of a GPU with several numbers of cores they are those of the device that is named.
MEASURED = {
    "adreno-505": _measured(23, 5, "Adreno 505"),
    "adreno-530": _measured(263, 20.4, "Adreno 530"),
    "adreno-640": _measured(814, 30, "Adreno 640"),
    "adreno-660": _measured(728, 35, "Adreno 660"),
    "mali-g57": _measured(121, 14.2, "Mali-G57 MC2"),
    "powervr-bxm-8-256": _measured(190, 14.2, "PowerVR BXM-8-256"),
}
