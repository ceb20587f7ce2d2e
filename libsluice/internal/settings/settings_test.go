package settings

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/units"
)

var errNoFile = errors.New("no such file")

func TestFromEnvironment(t *testing.T) {
	files := map[string]string{
		"a.yaml":     "cc: timely\nsegment: 32KiB\ndevices: [mlx5_0]\ncc_config: {t_low: 40us}\n",
		"typo.yaml":  "segmnet: 32KiB\n",
		"empty.yaml": "",
	}
	read := func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, errNoFile
	}
	for _, c := range []struct {
		env  string // separated by |
		want Environment
		err  string
	}{
		{"", Environment{Settings: Settings{CC: "timely"}}, ""},
		{"HOME=/root|SLUICEX=1|SLUICE_RXE_REQUIRED=1", Environment{Settings: Settings{CC: "timely"}}, ""},
		{"SLUICE_CC=", Environment{}, ""},
		{"SLUICE_RATE=10Gbps", Environment{Settings: Settings{Rate: 10 * units.Gbps}}, ""},
		{"SLUICE_CC=none|SLUICE_RATE=10Gbps", Environment{Settings: Settings{CC: "none", Rate: 10 * units.Gbps}}, ""},
		{"SLUICE_CONFIG=a.yaml", Environment{
			Settings: Settings{CC: "timely", CCConfig: "t_low: 40us\n", Segment: 32 * units.KiB}, Devices: []string{"mlx5_0"},
		}, ""},
		{"SLUICE_CONFIG=a.yaml|SLUICE_SEGMENT=8KiB|SLUICE_DEVICES=mlx4*, rxe?|SLUICE_STATS=1|SLUICE_DEBUG=true|SLUICE_CC_CONFIG=t_high: 1ms", Environment{
			Settings: Settings{CC: "timely", CCConfig: "t_high: 1ms\n", Segment: 8 * units.KiB},
			Devices:  []string{"mlx4*", "rxe?"}, Stats: true, Debug: true,
		}, ""},
		{"SLUICE_CONFIG=empty.yaml|SLUICE_BASE_RTT=5us|SLUICE_BATCH=32|SLUICE_MAX_OUTSTANDING=1MiB|SLUICE_LINE_RATE=25Gbps|SLUICE_NIC_RATE=5Gbps|SLUICE_CALIBRATE_EVERY=1s|SLUICE_PROGRESS_THREAD=1", Environment{
			Settings: Settings{
				CC: "timely", BaseRTT: 5 * units.Microsecond, Batch: 32, MaxOutstanding: units.MiB,
				LineRate: 25 * units.Gbps, NICRate: 5 * units.Gbps, CalibrateEvery: units.Second, ProgressThread: true,
			},
		}, ""},
		{"SLUICE_CONFIG=missing.yaml", Environment{}, "SLUICE_CONFIG: no such file"},
		{"SLUICE_CONFIG=typo.yaml", Environment{}, "typo.yaml (SLUICE_CONFIG): unknown field \"segmnet\""},
		{"SLUICE_CC=timley", Environment{}, `no rate engine is called "timley"`},
		{"SLUICE_CC=powertcp", Environment{}, "requires telemetry of switches"},
		{"SLUICE_RATE=10", Environment{}, "SLUICE_RATE=10: "},
		{"SLUICE_RATE=-1Gbps", Environment{}, "rate is"},
		{"SLUICE_RATE=", Environment{}, "SLUICE_RATE=: it is empty"},
		{"SLUICE_BATCH=16\nsegment: 4KiB", Environment{}, "more than one line"},
		{"SLUICE_SEGMENT=1KiB", Environment{}, "Segment is 1KiB"},
		{"SLUICE_CC_CONFIG=t_lwo: 1us", Environment{}, "cc_config of timely: unknown field"},
		{"SLUICE_CC=|SLUICE_CC_CONFIG=t_low: 1us", Environment{}, "cc_config requires cc"},
		{"SLUICE_DEVICES=[", Environment{}, "devices: pattern"},
	} {
		got, err := FromEnvironment(strings.Split(c.env, "|"), read)
		switch {
		case c.err == "" && err != nil:
			t.Errorf("%s: %v", c.env, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: error %v, not %q", c.env, err, c.err)
		case c.err == "":
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: %s", c.env, diff)
			}
		}
	}
}

func TestRateBoundsTheEngine(t *testing.T) {
	env := cc.Env{LineRate: 100 * units.Gbps, BaseRTT: 10 * units.Microsecond, MTU: 4096}
	for _, engine := range []string{"", "none", "timely"} {
		s := Settings{CC: engine, Rate: 3 * units.Gbps}
		c, err := s.Config()
		if err != nil {
			t.Fatal(err)
		}
		e, err := c.Engine(env)
		if err != nil {
			t.Fatal(err)
		}
		ack := &cc.Ack{Now: units.Millisecond, RTT: units.Microsecond, NetRTT: units.Microsecond, Bytes: 16384, Packets: 4, Scale: 1}
		for what, got := range map[string]cc.Control{
			"Control": e.Control(), "OnAck": e.OnAck(ack), "OnCNP": e.OnCNP(2 * units.Millisecond),
			"OnLoss": e.OnLoss(3 * units.Millisecond), "OnTimeout": e.OnTimeout(4 * units.Millisecond),
		} {
			if got.Rate > s.Rate || got.Rate <= 0 || engine != "timely" && got.Rate != s.Rate {
				t.Errorf("%q: %s gives %v, the bound is %v", engine, what, got.Rate, s.Rate)
			}
		}
		n := 0
		if e, ok := e.(cc.Inspector); ok {
			e.Inspect(func(string, float64) { n++ })
		}
		if (n > 0) != (engine == "timely") {
			t.Errorf("%q tells %d variables", engine, n)
		}
	}
}

func TestEngineName(t *testing.T) {
	for want, s := range map[string]Settings{
		"": {}, "timely": {CC: "timely"}, "fixed rate": {Rate: 1}, "timely, capped": {CC: "timely", Rate: 1},
	} {
		if got := s.EngineName(); got != want {
			t.Errorf("%+v is %q, not %q", s, got, want)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		device   string
		want     bool
	}{
		{nil, "mlx5_0", true},
		{[]string{"mlx5_0"}, "mlx5_0", true},
		{[]string{"mlx5_*"}, "mlx5_12", true},
		{[]string{"rxe0", "mlx5_?"}, "mlx5_1", true},
		{[]string{"rxe0"}, "mlx5_1", false},
	} {
		if got := Matches(c.patterns, c.device); got != c.want {
			t.Errorf("%v matches %s: %v", c.patterns, c.device, got)
		}
	}
}

func FuzzFromEnvironment(f *testing.F) {
	f.Add("10Gbps", "timely", "t_low: 1us", "cc: timely\nrate: 1Gbps\n")
	f.Add("[", "", "}", "devices: [[[")
	f.Fuzz(func(t *testing.T, rate, engine, config, text string) {
		e, err := FromEnvironment([]string{
			"SLUICE_CONFIG=f", "SLUICE_RATE=" + rate, "SLUICE_CC=" + engine, "SLUICE_CC_CONFIG=" + config,
		}, func(string) ([]byte, error) { return []byte(text), nil })
		if err != nil {
			return
		}
		if _, err := e.Settings.Config(); err != nil {
			t.Errorf("accepted, but: %v", err)
		}
	})
}
