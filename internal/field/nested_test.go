package field

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

type mode uint8

func (m mode) String() string { return [...]string{"slow", "fast", "mode(2)"}[m] }

type port struct {
	Rate int   `yaml:"rate" range:"[1,2^4]" zero:"none"`
	Most int   `yaml:"most" range:"[0,99]" least:"rate"`
	Wait *Time `yaml:"wait" range:"[1us,5us]"`
}

type shared struct {
	Cycles uint64 `yaml:"cycles" range:"[1,2^20]"`
}

type device struct {
	Shared shared          `yaml:",inline"`
	Link   port            `yaml:"link"`
	Peer   *port           `yaml:"peer"`
	Ports  []port          `yaml:"ports" most:"2" of:"ports"`
	Pairs  [2]port         `yaml:"pairs"`
	Named  map[string]port `yaml:"named"`
	Page   int             `yaml:"page" range:"[4,64]" power:"2" zero:"the usual one"`
	Frame  Time            `yaml:"frame" range:"[64,128]" plain:"yes"`
	Mode   mode            `yaml:"mode" one:"slow fast"`
	Words  []string        `yaml:"words" one:"a b" most:"3"`
	Shares []int           `yaml:"shares" range:"[0,100]"`
	Loss   float64         `yaml:"loss" range:"[0,1]" as:"a probability"`
	Alpha  float64         `yaml:"alpha" range:"[1/1024,2^20]" as:"a number" zero:"one"`
	Growth float64         `yaml:"growth" range:"(0,1000]" as:"a share" zero:"no marks" eg:"0.25"`
	Other  port            `yaml:"-"`
}

func TestNested(t *testing.T) {
	settings := Of[device]("nic")
	good := func() *device {
		return &device{Shared: shared{1}, Frame: 64}
	}
	if err := settings.CheckAll(good()); err != nil {
		t.Error(err)
	}
	for _, x := range []struct {
		change func(*device)
		want   string
	}{
		{func(c *device) { c.Shared.Cycles = 0 }, "cycles is 0: choose 1 to 1048576"},
		{func(c *device) { c.Shared.Cycles = 1<<63 + 1 }, "cycles is 9223372036854775809: choose 1 to 1048576"},
		{func(c *device) { c.Link.Rate = 17 }, "link.rate is 17: choose 1 to 16, or 0 for none"},
		{func(c *device) { c.Link.Rate = 7 }, "link.most is 0: choose at least rate, 7"},
		{func(c *device) { w := Time(6); c.Link.Wait = &w }, "link.wait is 6us: choose 1us to 5us"},
		{func(c *device) { w := Time(0); c.Link.Wait = &w }, "link.wait is 0us: choose 1us to 5us"},
		{func(c *device) { c.Peer = &port{Rate: -1} }, "peer.rate is -1: choose 1 to 16, or 0 for none"},
		{func(c *device) { c.Ports = []port{{}, {Most: 100}} }, "ports[1].most is 100: choose 0 to 99"},
		{func(c *device) { c.Ports = make([]port, 3) }, "ports is 3: choose at most 2 ports"},
		{func(c *device) { c.Pairs[1].Most = -1 }, "pairs[1].most is -1: choose 0 to 99"},
		{func(c *device) { c.Named = map[string]port{"z": {Most: -1}, "a": {Most: -2}} }, "named.a.most is -2: choose 0 to 99"},
		{func(c *device) { c.Page = 12 }, "page is 12: choose a power of two from 4 to 64, or 0 for the usual one"},
		{func(c *device) { c.Page = 128 }, "page is 128: choose a power of two from 4 to 64, or 0 for the usual one"},
		{func(c *device) { c.Frame = 12 }, "frame is 12: choose 64 to 128"},
		{func(c *device) { c.Loss = 2 }, "loss is 2: choose a probability from 0 to 1"},
		{func(c *device) { c.Alpha = 1.0 / 1025 }, "alpha is 0.000975609756097561: choose a number from 1/1024 to 2^20, or 0 for one"},
		{func(c *device) { c.Growth = -1 }, "growth is -1: choose a positive share up to 1000, such as 0.25, or 0 for no marks"},
		{func(c *device) { c.Mode = 2 }, "mode is mode(2): choose slow or fast"},
		{func(c *device) { c.Words = []string{"a", "c"} }, `words is "c": choose a or b`},
		{func(c *device) { c.Words = strings.Fields("a b a b") }, `words is 4: choose at most 3 of them`},
		{func(c *device) { c.Shares = []int{100, 101} }, "shares is 101: choose 0 to 100"},
	} {
		c := good()
		x.change(c)
		if err := settings.Check(c); err == nil || err.Error() != "nic: "+x.want {
			t.Errorf("got  %v\nwant nic: %s", err, x.want)
		}
	}
	c := good()
	c.Alpha = 1.0 / 1024
	if err := settings.Check(c); err != nil {
		t.Error(err)
	}
	c.Link.Rate, c.Page, c.Other.Rate = 1, 5, 99
	c.Named = map[string]port{"z": {Most: -1}, "a": {Most: -2}}
	if settings.Holds(c, "page") || settings.Holds(c, "link.most") || !settings.Holds(c, "link.rate") {
		t.Error("Holds is not of that setting")
	}
	fields, rest := Errors(settings.CheckAll(c))
	keys := ""
	for _, f := range fields {
		keys += f.Key + " "
	}
	if err := Of[port]("nic").CheckBelow("ports[1].", &port{Rate: 17, Most: 17}); err == nil || err.Error() != "nic: ports[1].rate is 17: choose 1 to 16, or 0 for none" {
		t.Error(err)
	}
	if rest != nil || keys != "link.most named.a.most named.z.most page " {
		t.Errorf("all of them: %s%v", keys, rest)
	}
}

// A setting without a key has the name of its field, and a span may be a time.Duration.
func TestPlainNames(t *testing.T) {
	type config struct {
		MaxAge time.Duration `range:"(0s,2ms]"`
	}
	if err := Of[config]("tags").Check(&config{MaxAge: time.Second}); err == nil || err.Error() != "tags: MaxAge is 1s: choose a positive span up to 2ms" {
		t.Error(err)
	}
}

// Texts set settings by their keys.
func TestParse(t *testing.T) {
	type link struct {
		Loss  float64 `yaml:"loss" range:"[0,1]" unit:"%" eg:"0.1%"`
		Delay Time    `yaml:"delay" range:"(0us,9us]" zero:"none"`
	}
	type options struct {
		Mode   string `yaml:"mode" one:"a b"`
		On     bool   `yaml:"on"`
		Asks   *bool  `yaml:"asks"`
		Window int    `yaml:"window" range:"[1,2^4]" of:"packets" zero:"all"`
		Class  uint8  `yaml:"class"`
		Link   link   `yaml:",inline"`
		Own    int    `yaml:"-"`
	}
	o, settings := options{Mode: "a", Class: 7}, Of[options]("soft")
	err := settings.Parse(&o, map[string][]string{"mode": {"a", "B"}, "on": {"on"}, "asks": {"off"}, "window": {"2^4"}, "loss": {"5%"}, "delay": {"4us"}})
	if err != nil || o.Asks == nil || *o.Asks {
		t.Fatalf("%+v, %v", o, err)
	}
	if o.Asks = nil; o != (options{"b", true, nil, 16, 7, link{0.05, 4}, 0}) {
		t.Errorf("%+v", o)
	}
	for text, want := range map[string]string{
		"mode=c": `"c": choose a or b`, "on=1": `"1": choose on or off`, "asks=": `"": choose on or off`,
		"window=0": `"0": choose 1 to 16 packets; leave it out for all`, "window=x": `"x": choose 1 to 16 packets; leave it out for all`, "class=256": `"256": choose 0 to 255`,
		"loss=0.5": `"0.5": choose 0% to 100%, such as 0.1%`, "loss=NaN%": `"NaN%": choose 0% to 100%, such as 0.1%`, "loss=101%": `"101%": choose 0% to 100%, such as 0.1%`,
		"delay=0us": `"0us": choose a positive span up to 9us; leave it out for none`, "delay=5": "unexpected EOF",
		"-=1": "unknown option, expected mode, on, asks, window, class, loss, delay", ",inline=1": "unknown option, expected mode, on, asks, window, class, loss, delay",
	} {
		key, value, _ := strings.Cut(text, "=")
		if err := settings.Parse(&o, map[string][]string{key: {value}}); err == nil || err.Error() != "option "+key+": "+want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// A page says of a list what it holds.
func TestListInWords(t *testing.T) {
	settings, err := Describe(reflect.TypeFor[device]())
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{"ports": "at most 2 ports", "words": "each a or b, at most 3 of them", "shares": "each 0 to 100"}
	for _, s := range settings {
		if s.Takes == words[s.Key] {
			delete(words, s.Key)
		}
	}
	if len(words) > 0 {
		t.Errorf("not said: %v", words)
	}
}

// A wrong tag is found in a configuration inside another and in lists.
func TestWrongNestedTags(t *testing.T) {
	type inner struct {
		A int `yaml:"a" range:"[0,2^63]"`
	}
	for want, typ := range map[string]reflect.Type{
		"b: a: range": reflect.TypeFor[struct {
			B []inner `yaml:"b"`
		}](),
		"b: range": reflect.TypeFor[struct {
			B []bool `yaml:"b" range:"[0,1]"`
		}](),
		"b: strconv": reflect.TypeFor[struct {
			B []bool `yaml:"b" most:"few"`
		}](),
	} {
		if _, err := Describe(typ); !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A text sets an enumeration by the name of its value, and a number as far as its type goes.
func TestParseKinds(t *testing.T) {
	type options struct {
		Mode  mode     `yaml:"mode" one:"slow fast"`
		Seed  uint64   `yaml:"seed"`
		Depth *int8    `yaml:"depth"`
		Age   Time     `yaml:"age" range:"(0us,)" why:"it ends"`
		Share float64  `yaml:"share"`
		Names []string `yaml:"names"`
	}
	var o options
	settings := Of[options]("sim")
	err := settings.Parse(&o, map[string][]string{"mode": {"fast"}, "seed": {"18446744073709551615"}, "depth": {"-0x80"}, "share": {"1/4"}})
	if err != nil || o.Mode != 1 || o.Seed != 1<<64-1 || *o.Depth != -128 || o.Share != 0.25 {
		t.Errorf("%+v, %v", o, err)
	}
	for text, want := range map[string]string{
		"mode=1": "choose slow or fast", "seed=2^64": "choose 0 to 18446744073709551615", "depth=128": "choose a whole number", "share=x": "choose a number",
		"age=0us": "choose a positive span; it ends", "names=a": "choose nothing: it is not given as text",
	} {
		key, value, _ := strings.Cut(text, "=")
		if err := settings.Parse(&o, map[string][]string{key: {value}}); err == nil || err.Error() != fmt.Sprintf("option %s: %q: %s", key, value, want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Faults is of any configuration, and says which setting has to be given.
func TestFaults(t *testing.T) {
	type flow struct {
		Size  Time `yaml:"size" range:"(0us,9us]" req:"yes"`
		Count int  `yaml:"count" range:"[1,4]"`
	}
	type flows struct {
		Flows []flow `yaml:"flows"`
		Load  int    `yaml:"load" range:"[0,1]" req:"yes"`
	}
	for range 2 { // the second time its type is known
		got := ""
		for _, e := range Faults(&flows{Flows: []flow{{9, 4}, {0, 4}, {-1, 0}}}) {
			got += fmt.Sprintf("%s %s, missing %v\n", e.Key, e.Fault(), e.Missing)
		}
		if want := "flows[1].size is 0us: choose a positive span up to 9us, missing true\n" +
			"flows[2].size is -1us: choose a positive span up to 9us, missing false\n" +
			"flows[2].count is 0: choose 1 to 4, missing false\n"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "A: range") {
			t.Errorf("a wrong tag: %s", got)
		}
	}()
	Faults(&struct {
		A int `range:"x"`
	}{})
}

func TestChanged(t *testing.T) {
	settings := Of[port]("nic")
	for want, pair := range map[string][2]port{"[]": {{Rate: 1}, {Rate: 1}}, "[most]": {{Rate: 1, Most: 2}, {Rate: 1}}, "[rate wait]": {{Rate: 1, Wait: new(Time)}, {}}} {
		if got := fmt.Sprint(settings.Changed(&pair[0], &pair[1])); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
