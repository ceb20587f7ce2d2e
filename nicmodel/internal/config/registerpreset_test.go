package config

import (
	"reflect"
	"slices"
	"testing"
)

func TestRegisterPreset(t *testing.T) {
	c, err := Preset("cx6dx")
	if err != nil {
		t.Fatal(err)
	}
	c.TxBuffer = 7777
	defer delete(presets, "mine")
	RegisterPreset("mine", c)
	if got, err := Preset("mine"); err != nil || !reflect.DeepEqual(got, c) || !slices.Contains(Presets(), "mine") {
		t.Errorf("%+v, %v; presets %v", got, err, Presets())
	}
	broken := c
	broken.TxBuffer = -1
	for name, c := range map[string]Config{"mine": c, "cx7": c, "": c, "broken": broken} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was registered", name)
				}
			}()
			RegisterPreset(name, c)
		}()
	}
}
