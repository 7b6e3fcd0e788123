"""Models of scikit-learn by skl2onnx."""

import warnings

from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.published.exporters.asked import asked

MODELS = {
    "LogisticRegression": LogisticRegression(max_iter=20),
    "StandardScaler, LogisticRegression": make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=20)
    ),
    "PCA, MLPRegressor": make_pipeline(
        PCA(16), MLPRegressor(hidden_layer_sizes=(16,), max_iter=5, random_state=0)
    ),
    "MLPClassifier": MLPClassifier(hidden_layer_sizes=(16,), max_iter=5, random_state=0),
    "MLPRegressor": MLPRegressor(hidden_layer_sizes=(16,), max_iter=5, random_state=0),
}


def main() -> None:
    """Exports what the command line names, as the tool does by default."""
    warnings.simplefilter("ignore")
    x, y = load_digits(return_X_y=True)
    x = x.astype("float32")
    for name, path in asked():
        path.write_bytes(to_onnx(MODELS[name].fit(x, y), x[:1]).SerializeToString())


if __name__ == "__main__":
    main()
