package field

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// colour is an enumeration, as package ib's transport services are.
type colour uint8

func (c colour) String() string { return map[colour]string{3: "RED", 5: "BLUE"}[c] }

type inner struct {
	Depth int `flag:"depth,d" default:"-1" range:"[0,7]" minus:"as deep as it is" help:"depth"`
}

type flags struct {
	inner
	Size   int           `flag:"size,s" unit:"B" default:"64, of small ones 2, of odd ones 3" range:"[1,1024]" help:"<BYTES> of each"`
	Span   time.Duration `flag:"span" unit:"s" range:"[1us,9s]" zero:"no end" help:"<TIME> of all"`
	Wait   time.Duration `flag:"wait" default:"1h" range:"[0s,)" help:"time to wait"`
	Level  uint8         `flag:"level" range:"[0,7]" help:"level"`
	Any    uint8         `flag:"any" help:"any"`
	Share  float64       `flag:"share" default:"0.5" range:"(0,1]" help:"share"`
	Colour colour        `flag:"colour" default:"BLUE" one:"RED BLUE" help:"colour"`
	Swap   bool          `flag:"swap" one:"KEEP SWAP" help:"order"`
	MTU    int           `flag:"mtu" one:"256 512" zero:"the path's" help:"MTU"`
	Unit   string        `flag:"unit" default:"g" one:"g M" help:"unit"`
	Round  Time          `flag:"round" help:"round trip"`
	Free   string        `flag:"free" zero:"nothing" help:"free text"`
	Other  int           // no flag
	Stall  time.Duration `range:"[0s,)"`
}

func TestFill(t *testing.T) {
	want := flags{inner: inner{Depth: -1}, Size: 64, Wait: time.Hour, Share: 0.5, Colour: 5, Unit: "g"}
	for cases, size := range map[string]int{"": 64, "small ones": 2, "odd ones": 3, "odd ones|small ones": 3, "others": 64} {
		var c flags
		Fill(&c, strings.Split(cases, "|")...)
		if want.Size = size; c != want {
			t.Errorf("%q: %+v, want %+v", cases, c, want)
		}
		if err := Of[flags]("toy").Check(&c); err != nil {
			t.Errorf("%q: the defaults are refused: %v", cases, err)
		}
	}
}

func TestFlagSet(t *testing.T) {
	all := map[string]Flag{}
	for _, f := range Flags(reflect.TypeFor[flags]()) {
		all[f.Name] = f
	}
	for _, x := range []struct{ flag, text, want string }{
		{"depth", "-1", "-1"},
		{"depth", "7", "7"},
		{"depth", "0x5", "5"},
		{"depth", "-2", "flags: --depth is \"-2\": choose 0 to 7, or -1 for as deep as it is"},
		{"depth", "9e99", "flags: --depth is \"9e99\": choose 0 to 7, or -1 for as deep as it is"},
		{"size", "16", "16"},
		{"size", "1KiB", "1024"},
		{"size", "0", "flags: --size is \"0\": choose 1 to 1024"},
		{"size", "5kg", "unknown unit \"kg\""},
		{"span", "2", "2s"},
		{"span", "2us", "2µs"},
		{"span", "0", "choose 1us to 9s; leave it out for no end"},
		{"span", "10ps", "choose 1us to 9s; leave it out for no end"},
		{"span", "99999999999", "is too large for a time"},
		{"wait", "90m", "1h30m0s"},
		{"wait", "5", "missing unit"},
		{"wait", "-1s", "choose 0s or more"},
		{"level", "7", "7"},
		{"level", "8", "choose 0 to 7"},
		{"level", "256", "choose 0 to 7"},
		{"any", "255", "255"},
		{"any", "256", "choose 0 to 255"},
		{"share", "1", "1"},
		{"share", "NaN", "choose a number above 0 and up to 1"},
		{"colour", "red", "RED"},
		{"colour", "GREEN", "choose RED or BLUE"},
		{"swap", "SWAP", "SWAP"},
		{"swap", "keep", "KEEP"},
		{"swap", "true", "choose KEEP or SWAP"},
		{"mtu", "512", "512"},
		{"mtu", "0", "choose 256 or 512"},
		{"unit", "M", "M"},
		{"unit", "p", "choose g or M"},
		{"round", "7us", "7us"},
		{"free", "all of it", "all of it"},
	} {
		var c flags
		f, v := all[x.flag], reflect.ValueOf(&c).Elem()
		got := ""
		if err := f.Set(v, x.text); err != nil {
			if got = err.Error(); c != (flags{}) {
				t.Errorf("--%s %s is refused, and sets %+v", x.flag, x.text, c)
			}
		} else {
			got = f.Text(v)
		}
		if got != x.want && (len(x.want) < 9 || !strings.Contains(got, x.want)) {
			t.Errorf("--%s %s: %q, want %q", x.flag, x.text, got, x.want)
		}
	}
	for name, want := range map[string]string{
		"depth": "int, d, otherwise as deep as it is", "size": "size, s, otherwise 64, of small ones 2, of odd ones 3", "span": "time, , otherwise no end",
		"wait": "duration, , otherwise ", "level": "uint8, , otherwise ", "colour": "string, , otherwise ", "swap": "string, , otherwise ",
		"mtu": "int, , otherwise the path's", "round": "string, , otherwise ", "free": "string, , otherwise nothing", "share": "float64, , otherwise ",
	} {
		f := all[name]
		if got := fmt.Sprintf("%s, %s, otherwise %s", f.Kind(), f.Letter, f.Otherwise()); got != want {
			t.Errorf("--%s: %q, want %q", name, got, want)
		}
	}
}

// A setting without a key is called by its flag, or its field.
func TestKeys(t *testing.T) {
	s := Of[flags]("toy")
	for want, change := range map[string]func(*flags){
		"toy: size is 2000: choose 1 to 1024":                  func(c *flags) { c.Size = 2000 },
		"toy: mtu is 1: choose 256 or 512":                     func(c *flags) { c.MTU = 1 },
		"toy: Stall is -1ns: choose 0s or more":                func(c *flags) { c.Stall = -1 },
		"toy: span is 1ns: choose 1us to 9s, or 0 for no end":  func(c *flags) { c.Span = 1 },
		"toy: level is 9: choose 0 to 7":                       func(c *flags) { c.Level = 9 },
		"toy: unit is \"x\": choose g or M":                    func(c *flags) { c.Unit = "x" },
		"toy: share is 0: choose a number above 0 and up to 1": func(c *flags) { c.Share = 0 },
		"toy: wait is -1ns: choose 0s or more":                 func(c *flags) { c.Wait = -1 },
		"toy: colour is : choose RED or BLUE":                  func(c *flags) { c.Colour = 0 },
	} {
		var c flags
		Fill(&c)
		change(&c)
		if err := s.Check(&c); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestWrongFlags(t *testing.T) {
	for want, config := range map[string]any{
		"a: default \"9x\"": struct {
			A int `flag:"a" default:"9x"`
		}{},
		"a: default \"1, of some 2x\"": struct {
			A int `flag:"a" default:"1, of some 2x"`
		}{},
		"a: default \"c\": settings: a is \"c\": choose x or y": struct {
			A string `flag:"a" default:"c" one:"x y"`
		}{},
		"a: range \"x\"": struct {
			A int `flag:"a" range:"x"`
		}{},
		"has no value \"GREEN\"": struct {
			A colour `flag:"a" default:"GREEN" one:"RED GREEN"`
		}{},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("%q, want %q", got, want)
				}
			}()
			Flags(reflect.TypeOf(config))
		}()
	}
}
