package stats

import (
	"encoding/json"
	"math"
	"testing"
)

func TestFloatJSON(t *testing.T) {
	for f, want := range map[Float]string{0: "0", 1.5: "1.5", 1e21: "1e+21", Float(math.Inf(1)): "null"} {
		if b, err := json.Marshal(f); err != nil || string(b) != want {
			t.Errorf("%v is %s, %v; want %s", float64(f), b, err, want)
		}
	}
	if b, err := json.Marshal(Unmeasured); err != nil || string(b) != "null" {
		t.Errorf("unmeasured is %s, %v", b, err)
	}
	var f Float
	if err := json.Unmarshal([]byte("null"), &f); err != nil || f.Measured() {
		t.Errorf("null is %v, %v", f, err)
	}
	if err := json.Unmarshal([]byte(`"x"`), &f); err == nil {
		t.Error("a string passes for a number")
	}
}
