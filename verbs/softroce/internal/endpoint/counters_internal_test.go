package endpoint

import (
	"reflect"
	"testing"

	"github.com/sluice-rdma/sluice/roce/rc"
)

// The sum of connections' counters is that of each of them.
func TestCountersAddUp(t *testing.T) {
	var a, b rc.Counters
	x, y := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()
	for i := range x.NumField() {
		x.Field(i).SetUint(uint64(100 * (i + 1)))
		y.Field(i).SetUint(uint64(i + 1))
	}
	a.Add(&b)
	for i := range x.NumField() {
		if got, want := x.Field(i).Uint(), uint64(101*(i+1)); got != want {
			t.Errorf("%s: %d, want %d", x.Type().Field(i).Name, got, want)
		}
	}
}
