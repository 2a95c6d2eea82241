"""Programs with a fault, and what they are run on; `golden/nonfinite` has what is said of each."""

from __future__ import annotations

from nonfinite_programs import Case, f16, f32, f64, model

NAN = "nan"
ROW_MASKED = [[True, True, False], [False, False, False]]

FORWARD = (
    Case(
        "log of 0",
        model(
            "p: float64[4]",
            "H = -np.sum(p * np.log(p))",
            "return H",
        ),
        {"p": f64([0.5, 0.5, 0, 0])},
        wrt=None,
    ),
    Case(
        "softmax by hand overflows",
        model(
            "x: float32[2, 3], y: int64[2]",
            "e = np.exp(x)",
            "p = e / np.sum(e, axis=1, keepdims=True)",
            "L = -np.mean(np.log(p[np.arange(2), y]))",
            "return L",
        ),
        {"x": f32([[1, 2, 3], [4, 1000, 5]]), "y": [0, 1]},
    ),
    Case(
        "log of a probability that is 0",
        model(
            "x: float32[2, 3]",
            "p = cr.softmax(x)",
            "L = -np.mean(np.log(p))",
            "return L",
        ),
        {"x": f32([[1, 2, 3], [-200, 80, 5]])},
    ),
    Case(
        "rows that are constant, by hand",
        model(
            "x: float64[n, 3]",
            "mu = np.mean(x, axis=1, keepdims=True)",
            "var = np.mean((x - mu) ** 2, axis=1, keepdims=True)",
            "z = (x - mu) / np.sqrt(var)",
            "J = np.sum(z**2)",
            "return J",
        ),
        {"x": f64([[1, 2, 3], [4, 4, 4]])},
    ),
    Case(
        "division by 0",
        model(
            "x: float64[3], count: float64[3]",
            "mean = x / count",
            "J = np.sum(mean)",
            "return J",
        ),
        {"x": f64([1, 2, 3]), "count": f64([1, 0, 2])},
    ),
    Case(
        "attention with a row that is masked",
        model(
            "q: float32[2, 4], k: float32[3, 4], mask: float32[2, 3]",
            "S = q @ k.T + mask",
            "A = cr.softmax(S)",
            "J = np.sum(A @ k)",
            "return J",
        ),
        {
            "q": f32([[1] * 4] * 2),
            "k": f32([[1] * 4] * 3),
            "mask": f32([[0, 0, "-inf"], ["-inf"] * 3]),
        },
        wrt="q",
    ),
    Case(
        "attention by hand with a row that is masked",
        model(
            "q: float32[2, 4], k: float32[3, 4], keep: bool_[2, 3]",
            "S = np.where(keep, q @ k.T, -np.inf)",
            "e = np.exp(S - np.max(S, axis=1, keepdims=True))",
            "A = e / np.sum(e, axis=1, keepdims=True)",
            "J = np.sum(A @ k)",
            "return J",
        ),
        {"q": f32([[1] * 4] * 2), "k": f32([[1] * 4] * 3), "keep": ROW_MASKED},
        wrt="q",
    ),
    Case(
        "a square that float16 does not hold",
        model(
            "x: float16[3]",
            "s = x * x",
            "J = np.sum(s)",
            "return J",
        ),
        {"x": f16([1, 300, 2])},
    ),
    Case(
        "a cast to float16",
        model(
            "x: float32[3]",
            "s = x.astype(np.float16)",
            "J = np.sum(s)",
            "return J",
        ),
        {"x": f32([1, 3e5, 2])},
    ),
    Case(
        "a negative base",
        model(
            "x: float64[3]",
            "r = x**1.5",
            "J = np.sum(r)",
            "return J",
        ),
        {"x": f64([1, -2, 3])},
    ),
    Case(
        "the root of a negative number",
        model(
            "x: float32[3], y: float32[3]",
            "r = np.sqrt(x - y)",
            "J = np.sum(r)",
            "return J",
        ),
        {"x": f32([4, 1, 9]), "y": f32([0, 2, 0])},
        wrt=None,
    ),
    Case(
        "0 times an inf that was meant",
        model(
            "keep: bool_[3], weight: float64[3]",
            "bias = np.where(keep, 0.0, -np.inf)",
            "J = np.sum(bias * weight)",
            "return J",
        ),
        {"keep": [True, False, True], "weight": f64([1, 0, 1])},
        wrt=None,
    ),
    Case(
        "parameters that grew",
        model(
            "x: float32[n, 2], W: float32[2]",
            "r = x @ W",
            "J = np.mean(r**2)",
            "return J",
        ),
        {"x": f32([[1e5, 1e5]] * 3), "W": f32([1e17, -2e17])},
        wrt="W",
    ),
)

LINEAR = model(
    "x: float32[n, 2], y: float32[n], W: float32[2]",
    "r = x @ W - y",
    "J = np.mean(r**2)",
    "return J",
)

BACKWARD = (
    Case(
        "the derivative of sqrt at 0",
        model(
            "x: float64[3]",
            "r = np.sqrt(x)",
            "J = np.sum(r)",
            "return J",
        ),
        {"x": f64([0, 1, 4])},
    ),
    Case(
        "the derivative of a norm of 0",
        model(
            "x: float64[3]",
            "r = np.sqrt(np.sum(x**2))",
            "return r",
        ),
        {"x": f64([0, 0, 0])},
    ),
    Case(
        "the derivative of a standard deviation of 0",
        model(
            "x: float64[2, 3]",
            "var = np.mean((x - np.mean(x, axis=1, keepdims=True)) ** 2, axis=1)",
            "s = np.sqrt(var)",
            "J = np.sum(s)",
            "return J",
        ),
        {"x": f64([[1, 2, 3], [4, 4, 4]])},
    ),
    Case(
        "np.where leaves out a logarithm",
        model(
            "x: float64[3, 1], w: float64[1]",  # no mask goes back through a product of matrices
            "z = np.where(x[:, 0] > 0, np.log(x) @ w, 0.0)",
            "J = np.sum(z)",
            "return J",
        ),
        {"x": f64([[0], [1], [2]]), "w": f64([1])},
    ),
    Case(
        "sigmoid by hand",
        model(
            "x: float32[3]",
            "s = 1 / (1 + np.exp(-x))",
            "J = np.sum(s)",
            "return J",
        ),
        {"x": f32([0, -100, 2])},
    ),
    Case(
        "an infinity that disappears, and whose derivative does not",
        model(
            "var: float64[2]",
            "s = 1 / np.sqrt(var)",
            "J = np.sum(np.tanh(s))",
            "return J",
        ),
        {"var": f64([1, 0])},
        wrt="var",
    ),
    Case(
        "the second derivative of a power",
        model(
            "x: float64[()]",
            "J = x**1.5",
            "return J",
        ),
        {"x": 0.0},
        wrt=("x", "x"),
    ),
    Case(
        "the second derivative of sqrt",
        model(
            "x: float64[()]",
            "J = np.sqrt(x) * 1e200",
            "return J",
        ),
        {"x": 1e-120},
        wrt=("x", "x"),
    ),
)

UPDATE = (
    Case(
        "the update overflows",
        LINEAR,
        {"x": f32([[1e5, 1e5]] * 3), "y": f32([0, 0, 0]), "W": f32([1, 1])},
        wrt="W",
        learning_rate=1e30,
    ),
)

GIVEN = (
    Case(
        "a parameter that is NaN",
        LINEAR,
        {"x": f32([[1, 2]] * 3), "y": f32([0, 0, 0]), "W": f32([1, NAN])},
        wrt="W",
        learning_rate=0.1,
    ),
    Case(
        "NaN in the data",
        LINEAR,
        {"x": f32([[1, 2], [3, NAN], [5, 6]]), "y": f32([0, 0, 0]), "W": f32([1, 1])},
        wrt="W",
        learning_rate=0.1,
    ),
    Case(
        "a row of an embedding that is NaN",
        model(
            "E: float32[4, 3], tokens: int64[n]",
            "h = cr.embedding(E, tokens)",
            "J = np.sum(h**2)",
            "return J",
        ),
        {"E": f32([[1] * 3, [1] * 3, [NAN] * 3, [1] * 3]), "tokens": [0, 2, 2]},
        wrt="E",
    ),
    Case(
        "a constant of the program that is NaN",
        model(
            "x: float64[2]",
            "z = np.where(x > 0, x, np.nan)",
            "J = np.sum(z)",
            "return J",
        ),
        {"x": f64([1, -1])},
    ),
    Case(
        "an inf that was meant, in the objective",
        model(
            "x: float64[2], keep: bool_[2]",
            "S = np.where(keep, x, -np.inf)",
            "J = np.sum(S)",
            "return J",
        ),
        {"x": f64([1, 2]), "keep": [True, False]},
        wrt=None,
    ),
)
