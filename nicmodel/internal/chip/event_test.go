package chip

import (
	"testing"

	"pgregory.net/rapid"
)

// What an event is about comes out of the engine's one integer as it went in.
func TestEventArguments(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		num := rapid.Uint32().Draw(rt, "number")
		count := rapid.IntRange(0, 1<<24-1).Draw(rt, "count")
		resets := rapid.Uint8Range(0, 1<<7-1).Draw(rt, "resets")
		flag := rapid.Bool().Draw(rt, "flag")
		if e := (Stores{num, count, resets, flag}); UnpackStores(e.Pack()) != e {
			rt.Errorf("got %+v, expected %+v", UnpackStores(e.Pack()), e)
		}
		if e := (Elements{num, count, resets, flag}); UnpackElements(e.Pack()) != e {
			rt.Errorf("got %+v, expected %+v", UnpackElements(e.Pack()), e)
		}
		if e := (Receives{num, count, resets}); UnpackReceives(e.Pack()) != e {
			rt.Errorf("got %+v, expected %+v", UnpackReceives(e.Pack()), e)
		}
		if e := (Completion{num, flag}); UnpackCompletion(e.Pack()) != e {
			rt.Errorf("got %+v, expected %+v", UnpackCompletion(e.Pack()), e)
		}
	})
}
