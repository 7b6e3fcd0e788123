"""What pyproject.toml cannot say: a wheel holds the native runtime, compiled, and names its system.

An editable install holds none; there it is compiled when it is first used.
"""

import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py


class BuildWithRuntime(build_py):
    """Copies the package, and lets the copy compile its runtime: there folders have their places.

    Attributes:
        platform: that of the wheel's name; empty of an editable install.
    """

    platform = ""

    def run(self) -> None:
        """Builds the package.

        Raises:
            SystemExit: the runtime does not compile, which the copy has said.
        """
        super().run()
        if self.editable_mode:
            return
        self.platform = self._said_by("odtc.runtime_rpc.native.wheel")
        version = self.distribution.get_version()
        self._said_by("odtc.runtime_rpc.native.android.wheel", version)
        self._said_by("odtc.app.android_runtime")

    def _said_by(self, module: str, *words: str) -> str:
        """Runs a module of the copy."""
        command = [sys.executable, "-B", "-m", module, *words]
        done = subprocess.run(
            command, cwd=self.build_lib, stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.returncode)
        return done.stdout.strip()


class WheelOfOneSystem(bdist_wheel):
    """A wheel for any Python 3 of a system: the runtime is called through ctypes."""

    def get_tag(self) -> tuple[str, str, str]:
        """The last three parts of the wheel's name."""
        build = self.get_finalized_command("build_py")
        return ("py3", "none", build.platform) if build.platform else super().get_tag()


class WithLibrary(Distribution):
    """Files of one system, though no extension is among them."""

    def has_ext_modules(self) -> bool:
        """Whether wheels are of one system."""
        return True


setup(
    distclass=WithLibrary,
    cmdclass={"build_py": BuildWithRuntime, "bdist_wheel": WheelOfOneSystem},
)
