package main

import _ "embed"

// semantics is what C does not have of Go's meaning, as inline functions.
//
//go:embed sluice_go.h
var semantics string

// intrinsics are functions of the standard library, and of this module, that have a
// counterpart in sluice_go.h.
var intrinsics = map[string]string{
	"math.Abs":         "sluice_abs",
	"math.Sqrt":        "sluice_sqrt",
	"math.Floor":       "sluice_floor",
	"math.Ceil":        "sluice_ceil",
	"math.Round":       "sluice_round",
	"math.Ldexp":       "sluice_ldexp",
	"math.NaN":         "sluice_nan",
	"math.Inf":         "sluice_inf",
	"math.IsInf":       "sluice_isinf",
	"math.Float64bits": "sluice_float64bits",
	"math/bits.Len64":  "sluice_len64",
	"math/bits.Len32":  "sluice_len64",

	"math/bits.TrailingZeros64": "sluice_trailing_zeros64",
	"math/bits.TrailingZeros16": "sluice_trailing_zeros16",
	// Of two results.
	"math.Frexp":      "sluice_frexp",
	"math/bits.Mul64": "sluice_mul64",
	"math/bits.Add64": "sluice_add64",
	"math/bits.Sub64": "sluice_sub64",
	"math/bits.Div64": "sluice_div64",

	"github.com/sluice-rdma/sluice/internal/detmath.Int64":   "sluice_int64",
	"github.com/sluice-rdma/sluice/internal/detmath.InRange": "sluice_int64",
}

// intrinsicResults are the fields of what those of two results return.
var intrinsicResults = map[string][3]string{
	"sluice_frexp": {"struct sluice_fraction", "frac", "exp"},
	"sluice_mul64": {"struct sluice_u128", "hi", "lo"},
	"sluice_add64": {"struct sluice_sum", "sum", "carry"},
	"sluice_sub64": {"struct sluice_difference", "diff", "borrow"},
	"sluice_div64": {"struct sluice_quotient", "quo", "rem"},
}
