package stats

import (
	"encoding/json"
	"math"
	"strconv"
)

// Float is a measured value. Unmeasured, any other NaN and the infinities are
// null in JSON.
type Float float64

// Unmeasured is the value of what was not measured.
var Unmeasured = Float(math.NaN())

// Measured reports whether f is a number.
func (f Float) Measured() bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

// MarshalJSON implements json.Marshaler.
func (f Float) MarshalJSON() ([]byte, error) {
	if !f.Measured() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *Float) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*f = Unmeasured
		return nil
	}
	v, err := strconv.ParseFloat(string(b), 64)
	*f = Float(v)
	return err
}
