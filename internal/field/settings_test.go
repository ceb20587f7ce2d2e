package field

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

// Time is written with its unit, as package units' times are.
type Time int64

func (t *Time) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "%dus", (*int64)(t))
	return err
}

func (t Time) String() string { return fmt.Sprintf("%dus", int64(t)) }

type config struct {
	Low   Time    `yaml:"low" range:"[0us,)"`
	High  Time    `yaml:"high" eg:"5us" range:"(0us,9us]" zero:"none" least:"low"`
	Share float64 `yaml:"share" eg:"0.5" range:"(0,1]" why:"all of it is 1"`
	Count int     `yaml:"count" range:"[1,8]" of:"flows"`
	Pass  bool    `yaml:"pass"`
	Mode  string  `yaml:"mode" one:"a b c"`
}

func TestCheck(t *testing.T) {
	s := Of[config]("toy")
	good := config{High: 9, Share: 1, Count: 1, Mode: "c"}
	for _, x := range []struct {
		change func(*config)
		want   string
	}{
		{func(*config) {}, ""},
		{func(c *config) { c.High, c.Low = 0, 7 }, ""},
		{func(c *config) { c.Share = math.SmallestNonzeroFloat64 }, ""},
		{func(c *config) { c.Low = -1 }, "toy: low is -1us: choose 0us or more"},
		{func(c *config) { c.High = 10 }, "toy: high is 10us: choose a positive span up to 9us, such as 5us, or 0 for none"},
		{func(c *config) { c.High = -1 }, "toy: high is -1us: choose a positive span up to 9us, such as 5us, or 0 for none"},
		{func(c *config) { c.High, c.Low = 6, 7 }, "toy: high is 6us: choose at least low, 7us"},
		{func(c *config) { c.Share = 0 }, "toy: share is 0: choose a number above 0 and up to 1, such as 0.5; all of it is 1"},
		{func(c *config) { c.Share = math.NaN() }, "toy: share is NaN: choose a number above 0 and up to 1, such as 0.5; all of it is 1"},
		{func(c *config) { c.Share = math.Nextafter(1, 2) }, "toy: share is 1.0000000000000002: choose a number above 0 and up to 1, such as 0.5; all of it is 1"},
		{func(c *config) { c.Count = 9 }, "toy: count is 9: choose 1 to 8 flows"},
		{func(c *config) { c.Count = 0 }, "toy: count is 0: choose 1 to 8 flows"},
		{func(c *config) { c.Mode = "d" }, `toy: mode is "d": choose a, b or c`},
	} {
		c := good
		x.change(&c)
		got := ""
		if err := s.Check(&c); err != nil {
			got = err.Error()
		}
		if got != x.want {
			t.Errorf("%+v:\n got %q\nwant %q", c, got, x.want)
		}
	}
}

func TestInterval(t *testing.T) {
	for text, want := range map[string]string{
		"(,)": "a number", "(,2)": "a number below 2", "(,2]": "a number up to 2", "(0,)": "a positive number", "(1,)": "a number above 1", "[1,)": "1 or more",
		"(0,1)": "a number above 0 and below 1", "(0,1]": "a number above 0 and up to 1", "[-2,0)": "a number from -2 to below 0", "[0,1e9]": "0 to 1e9",
	} {
		s := Setting{Type: reflect.TypeFor[float64]()}
		if err := s.read(reflect.StructTag(`range:"` + text + `"`)); err != nil || s.Want != "choose "+want {
			t.Errorf("%s: %q, %v; want %q", text, s.Want, err, want)
		}
	}
}

// A wrong tag is the program's own fault, and stops it before it runs.
func TestWrongTags(t *testing.T) {
	for name, of := range map[string]func(){
		"expected two ends in brackets": func() {
			Of[struct {
				A int `yaml:"a" range:"1 to 2"`
			}]("toy")
		},
		`"x": invalid syntax`: func() {
			Of[struct {
				A int `yaml:"a" range:"[x,2]"`
			}]("toy")
		},
		"bool has no range": func() {
			Of[struct {
				A bool `yaml:"a" range:"[0,2]"`
			}]("toy")
		},
		`no setting of its type is called "b"`: func() {
			Of[struct {
				A int     `yaml:"a" least:"b"`
				B float64 `yaml:"b"`
			}]("toy")
		},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, "toy: a: ") || !strings.Contains(got, name) {
					t.Errorf("%q, want %q", got, name)
				}
			}()
			of()
		}()
	}
}
