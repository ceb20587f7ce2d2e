package doctor

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	_ "github.com/sluice-rdma/sluice/cc/timely"
	"github.com/sluice-rdma/sluice/verbs"
	_ "github.com/sluice-rdma/sluice/verbs/simverbs"
)

func open() (verbs.Device, error) { return verbs.Open("sim:doctor/h0") }

func TestAHealthyDevice(t *testing.T) {
	r, err := Examine(open, Options{Port: 1, GID: -1, Duration: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	text := new(strings.Builder)
	if err := r.WriteText(text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  ok    port: 1: active, 100Gbps", "  ok    calibration: error at most ",
		"  ok    data: 1MiB written, read back and the same", "  ok    pacing: asked for ", "  ok    the engine timely: ",
		"\n0 failed, 0 warnings\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
}

// unlimited is a device of the model without packet pacing. Of its static rate it may heed
// nothing, or refuse it.
type unlimited struct {
	verbs.Device
	deaf, refuses bool
}

func (u unlimited) Run(f ...func() error) error { return verbs.Run(u.Device, f...) }
func (u unlimited) Blocking(f func())           { verbs.Blocking(u.Device, f) }
func (u unlimited) Sleep(d time.Duration)       { verbs.Sleep(u.Device, d) }

func (u unlimited) AllocPD() (verbs.PD, error) {
	pd, err := u.Device.AllocPD()
	return unlimitedPD{pd, u}, err
}

type unlimitedPD struct {
	verbs.PD
	u unlimited
}

func (p unlimitedPD) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	qp, err := p.PD.CreateQP(a)
	return unlimitedQP{qp, p.u}, err // of its methods only those of verbs.QP
}

type unlimitedQP struct {
	verbs.QP
	u unlimited
}

func (q unlimitedQP) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	if a.AV.StaticRate > 0 && q.u.refuses {
		return verbs.ErrNotSupported
	}
	if q.u.deaf {
		a.AV.StaticRate = 0
	}
	return q.QP.Modify(a, mask)
}

func TestHybrid(t *testing.T) {
	for name, c := range map[string]struct {
		wrap   func(verbs.Device) verbs.Device
		level  Level
		detail string
	}{
		"packet pacing": {func(d verbs.Device) verbs.Device { return d }, OK, "packet pacing: RC queue pairs take a rate"},
		"static rate":   {func(d verbs.Device) verbs.Device { return unlimited{Device: d} }, OK, "static_rate: 24."},
		"deaf":          {func(d verbs.Device) verbs.Device { return unlimited{Device: d, deaf: true} }, Note, "static_rate (taken, and not heeded: 9"},
		"neither":       {func(d verbs.Device) verbs.Device { return unlimited{Device: d, refuses: true} }, Note, "neither packet pacing (queue pairs of this provider have none) nor static_rate (not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Examine(func() (verbs.Device, error) {
				d, err := open()
				return c.wrap(d), err
			}, Options{Port: 1, GID: -1, Duration: 5 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			if f := find(t, r, "hybrid pacing"); f.Level != c.level || !strings.Contains(f.Detail, c.detail) {
				t.Errorf("%+v", f)
			}
		})
	}
}

// What does not work ends up in the report, and nothing is left open.
func TestFaultsAreReported(t *testing.T) {
	r, err := Examine(open, Options{Port: 1, GID: 7, Duration: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if r.Count(Fail) != 1 {
		t.Errorf("%+v", r)
	}
	if _, err := Examine(open, Options{Port: 2}); err == nil || !strings.Contains(err.Error(), "has ports 1 to 1") {
		t.Errorf("port 2: %v", err)
	}
	if r, err = Examine(open, Options{Port: 1, GID: -1, Duration: 5 * time.Millisecond, Engine: "bbr"}); err != nil || r.Count(Fail) != 1 {
		t.Errorf("an engine that does not exist: %v, %+v", err, r)
	}
	broken := errors.New("no device today")
	if _, err := Examine(func() (verbs.Device, error) { return nil, broken }, Options{Port: 1}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// netdevice is a device of a network interface.
type netdevice struct {
	verbs.Device
	netdev string
}

func (d netdevice) Port(int) (verbs.PortAttr, error) { return verbs.PortAttr{Netdev: d.netdev}, nil }

func find(t *testing.T, r *Report, what string) Finding {
	t.Helper()
	for _, s := range r.Sections {
		for _, f := range s.Findings {
			if f.What == what {
				return f
			}
		}
	}
	t.Fatalf("nothing about %s in %+v", what, r)
	return Finding{}
}

func TestFirmware(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	card := fstest.MapFS{
		"sys/class/net/eth9/device/uevent":        file("DRIVER=mlx5_core\nPCI_SLOT_NAME=0000:65:00.0"),
		"sys/bus/pci/devices/0000:65:00.0/vendor": file("0x15b3"),
	}
	with := func(more fstest.MapFS) fs.FS {
		all := fstest.MapFS{}
		for name, f := range card {
			all[name] = f
		}
		for name, f := range more {
			all[name] = f
		}
		return all
	}
	for name, c := range map[string]struct {
		root   fs.FS
		level  Level
		detail string
	}{
		"on for two priorities": {with(fstest.MapFS{
			"sys/class/net/eth9/ecn/roce_rp/enable/0": file("0"), "sys/class/net/eth9/ecn/roce_rp/enable/3": file("1"), "sys/class/net/eth9/ecn/roce_rp/enable/5": file("1"),
		}), Warn, "priorities 3 5"},
		"off":                          {with(fstest.MapFS{"sys/class/net/eth9/ecn/roce_rp/enable/0": file("0")}), OK, "off for every priority"},
		"parameters only":              {with(fstest.MapFS{"sys/kernel/debug/mlx5/0000:65:00.0/cc_params/rp_gd": file("11")}), Warn, "/sys/kernel/debug/mlx5/0000:65:00.0/cc_params"},
		"parameters of another card":   {with(fstest.MapFS{"sys/kernel/debug/mlx5/0000:66:00.0/cc_params/rp_gd": file("11")}), Note, "nothing of it"},
		"nothing of a card to be seen": {fstest.MapFS{}, Note, "nothing of it"},
	} {
		e := &examination{dev: netdevice{netdev: "eth9"}, root: c.root, report: &Report{}, options: Options{Port: 1}}
		e.firmware()
		f := find(t, e.report, "DCQCN")
		if f.Level != c.level || !strings.Contains(f.Detail, c.detail) || c.level == Warn && f.Mend == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestNetworkOfAnUnknownInterface(t *testing.T) {
	e := &examination{dev: netdevice{}, root: fstest.MapFS{}, report: &Report{}, options: Options{Port: 1}}
	e.network()
	e.firmware()
	if f := find(t, e.report, "settings"); f.Level != Note {
		t.Errorf("%+v", f)
	}
	e.dev = netdevice{netdev: "no-such-if0"}
	e.network()
	if f := find(t, e.report, "link pause"); f.Level != Note || !strings.Contains(f.Detail, "can't be seen on no-such-if0") {
		t.Errorf("%+v", f)
	}
}

func TestHost(t *testing.T) {
	e := &examination{root: fstest.MapFS{
		"sys/devices/system/clocksource/clocksource0/current_clocksource": {Data: []byte("hpet\n")},
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":            {Data: []byte("powersave\n")},
		"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor":            {Data: []byte("powersave\n")},
	}, report: &Report{}}
	e.host()
	if f := find(t, e.report, "clock source"); f.Level != Warn || f.Mend == "" {
		t.Errorf("%+v", f)
	}
	if f := find(t, e.report, "frequency governor"); f.Level != Note || !strings.HasPrefix(f.Detail, "powersave on 2 processors") {
		t.Errorf("%+v", f)
	}
}
