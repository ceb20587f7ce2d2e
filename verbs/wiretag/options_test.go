package wiretag

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

func TestParseName(t *testing.T) {
	with := func(form telemetry.DelayForm, change func(*Config)) *Config {
		c := DefaultConfig(form)
		if change != nil {
			change(&c)
		}
		return &c
	}
	for _, c := range []struct {
		name, inner string
		want        *Config // nil for none
		says        string
	}{
		{"ibv:rxe0", "ibv:rxe0", nil, ""},
		{"ibv:rxe0?timestamps=off", "ibv:rxe0?timestamps=off", nil, ""},
		{"soft:eth0?telemetry=csig-wide", "soft:eth0?telemetry=csig-wide", nil, ""},
		{"sim:lab/h0?telemetry=per-hop", "sim:lab/h0?telemetry=per-hop", nil, ""},
		{"ibv:rxe0?telemetry=poseidon", "ibv:rxe0", with(telemetry.Value, nil), ""},
		{"ibv:rxe0?timestamps=off&telemetry=csig-compact", "ibv:rxe0?timestamps=off", with(telemetry.Compact, nil), ""},
		{"ibv:x?telemetry=csig-wide&tagtype=0x9999&base=1024ns&step=256ns", "ibv:x", with(telemetry.Wide, func(c *Config) {
			c.Format.EtherType, c.Format.Base, c.Format.Step = 0x9999, 1024*units.Nanosecond, 256*units.Nanosecond
		}), ""},
		{"ibv:x?telemetry=csig-wide&collect=probes&every=1ms&maxage=2s&sport=50000", "ibv:x", with(telemetry.Wide, func(c *Config) {
			c.Mode, c.ProbeInterval, c.MaxAge, c.SourcePort = Probes, time.Millisecond, 2*time.Second, 50000
		}), ""},
		{"ibv:x?%zz", "", nil, "invalid URL escape"},
		{"ibv:x?collect=tags", "", nil, "requires telemetry="},
		{"ibv:x?telemetry=int", "", nil, "expected csig-wide"},
		{"ibv:x?telemetry=csig-wide&collect=all", "", nil, `"all": choose auto, tags, probes or reflect`},
		{"ibv:x?telemetry=poseidon&step=256ns", "", nil, "requires telemetry=csig-wide"},
		{"ibv:x?telemetry=csig-wide&step=250ns", "", nil, "power of two"},
		{"ibv:x?telemetry=poseidon&tagtype=0x10000", "", nil, `option tagtype: "0x10000": choose 0 to 65535, such as 0x88b5`},
		{"ibv:x?telemetry=poseidon&tagtype=0x0800", "", nil, "IPv4"},
		{"ibv:x?telemetry=poseidon&every=-1s", "", nil, `option every: "-1s": choose 0s or more`},
		{"ibv:x?telemetry=poseidon&maxage=0s", "", nil, "choose a positive span; it is longer than the round trip"},
		{"ibv:x?step=x", "", nil, "option step requires telemetry=csig-wide, "},
		{"ibv:x?telemetry=poseidon&every=often", "", nil, "every"},
	} {
		inner, cfg, wanted, err := ParseName(c.name)
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %q", c.name, err, c.says)
			}
		case err != nil || inner != c.inner || wanted != (c.want != nil) || wanted && cfg != *c.want:
			t.Errorf("%s: %s, %+v, %v, %v", c.name, inner, cfg, wanted, err)
		}
	}
}

func TestParseInterface(t *testing.T) {
	netdev, cfg, wanted, err := ParseInterface("eth0?telemetry=poseidon&tagtype=0x9999")
	if netdev != "eth0" || !wanted || cfg.Format.EtherType != 0x9999 || err != nil {
		t.Errorf("%s, %+v, %v, %v", netdev, cfg, wanted, err)
	}
	if netdev, _, wanted, err := ParseInterface("eth0"); netdev != "eth0" || wanted || err != nil {
		t.Errorf("%s, %v, %v", netdev, wanted, err)
	}
	for name, says := range map[string]string{
		"eth0?telemetry=poseidon&mtu=5": "unknown option", "eth0?mtu=5": "unknown option", "eth0?telemetry=x": "expected csig-wide",
	} {
		if _, _, _, err := ParseInterface(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
}

func FuzzParseName(f *testing.F) {
	f.Add("ibv:rxe0?telemetry=csig-wide&tagtype=0x9999&base=1024ns&step=256ns")
	f.Add("ibv:x?telemetry=poseidon&collect=probes&every=1ms&maxage=2s&sport=50000")
	f.Fuzz(func(t *testing.T, name string) {
		inner, cfg, wanted, err := ParseName(name)
		if err != nil {
			return
		}
		if !wanted {
			if inner != name {
				t.Errorf("%q became %q", name, inner)
			}
			return
		}
		if err := cfg.Validate(); err != nil {
			t.Error(err)
		}
		if _, _, again, err := ParseName(inner); again || err != nil {
			t.Errorf("%q has options left, %v", inner, err)
		}
	})
}

// The values follow from the definitions of Linux's rdma_flow_label_to_udp_sport and
// rdma_calc_flow_label, worked out by hand.
func TestSourcePort(t *testing.T) {
	for _, c := range []struct {
		label, local, peer uint32
		want               uint16
	}{
		{1, 5, 6, 0xc001},
		{0x03fff, 0, 0, 0xffff},
		{0xfc000, 0, 0, 0xc03f},
		{0xfffff, 0, 0, 0xffc0},
		{0, 3, 5, 0xc00f},
		{0, 1 << 12, 1 << 12, 0xc010}, // 2^24 and its 2^4: 16
		{0x100001, 9, 9, 0xc001},
	} {
		if got := sourcePort(c.label, c.local, c.peer); got != c.want {
			t.Errorf("label %#x, %d and %d: %#x, want %#x", c.label, c.local, c.peer, got, c.want)
		}
		if sourcePort(c.label, c.local, c.peer) != sourcePort(c.label, c.peer, c.local) {
			t.Error("the two directions differ")
		}
	}
}

func TestConfigRanges(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"": func(*Config) {},
		"collect is mode 4: choose auto, tags, probes or reflect":                func(c *Config) { c.Mode = 4 },
		"every is -1ns: choose 0s or more":                                       func(c *Config) { c.ProbeInterval = -1 },
		"maxage is 0s: choose a positive span; it is longer than the round trip": func(c *Config) { c.MaxAge = 0 },
	} {
		c := DefaultConfig(telemetry.Value)
		change(&c)
		if err := c.Validate(); (err == nil) != (want == "") || err != nil && err.Error() != "wiretag: "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
