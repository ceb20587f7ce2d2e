package nicmodel

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
		if e := (doorbellEvent{num, count, resets, flag}); unpackDoorbell(e.pack()) != e {
			rt.Errorf("got %+v, expected %+v", unpackDoorbell(e.pack()), e)
		}
		if e := (elementsEvent{num, count, resets, flag}); unpackElements(e.pack()) != e {
			rt.Errorf("got %+v, expected %+v", unpackElements(e.pack()), e)
		}
		if e := (receivesEvent{num, count, resets}); unpackReceives(e.pack()) != e {
			rt.Errorf("got %+v, expected %+v", unpackReceives(e.pack()), e)
		}
		if e := (completionEvent{num, flag}); unpackCompletion(e.pack()) != e {
			rt.Errorf("got %+v, expected %+v", unpackCompletion(e.pack()), e)
		}
	})
}
