package verbs_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

type noDevices struct{}

func (noDevices) Open(name string) (verbs.Device, error) {
	return nil, verbs.Errorf("open", "fake:"+name, verbs.ErrNoDevice, "")
}
func (noDevices) Devices() ([]string, error) { return []string{"fake:0"}, nil }

func TestRegistry(t *testing.T) {
	verbs.Register("fake", noDevices{})
	if got := verbs.Providers(); len(got) != 1 || got[0] != "fake" {
		t.Errorf("providers %v", got)
	}
	if got, err := verbs.Devices(); err != nil || len(got) != 1 || got[0] != "fake:0" {
		t.Errorf("devices %v, %v", got, err)
	}
	for name, says := range map[string]string{
		"mlx5_0":  "write PROVIDER:DEVICE",
		"mlx:0":   `no provider "mlx" is linked in, only: fake`,
		"fake:17": "open fake:17: no such device",
	} {
		if _, err := verbs.Open(name); !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), says) {
			t.Errorf("open %s: %v, want it to say %q", name, err, says)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("registering a scheme twice did not panic")
		}
	}()
	verbs.Register("fake", noDevices{})
}

func TestRunWithoutSimulatedTime(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	err := verbs.Run(nil, func() error { return first }, func() error { return nil }, func() error { return second })
	if !errors.Is(err, first) || !errors.Is(err, second) {
		t.Errorf("Run returned %v", err)
	}
}

// recorder takes down what Modify is asked for.
type recorder struct {
	verbs.QP
	masks  []verbs.QPAttrMask
	attrs  []verbs.QPAttr
	failAt int
}

func (r *recorder) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	if len(r.masks) == r.failAt {
		return verbs.ErrState
	}
	r.masks, r.attrs = append(r.masks, mask), append(r.attrs, a)
	return nil
}

func TestConnectRC(t *testing.T) {
	r := &recorder{failAt: -1}
	p := verbs.DefaultRC()
	local, remote := verbs.Endpoint{PSN: 5}, verbs.Endpoint{GID: netip.MustParseAddr("10.0.0.2"), QPN: 9, PSN: 6}
	if err := verbs.ConnectRC(r, local, remote, p); err != nil {
		t.Fatal(err)
	}
	want := []verbs.QPAttrMask{verbs.ResetToInitRC | verbs.AttrPKeyIndex, verbs.InitToRTRRC, verbs.RTRToRTSRC}
	for i, state := range []ib.QPState{ib.Init, ib.RTR, ib.RTS} {
		if r.masks[i] != want[i] || r.attrs[i].State != state {
			t.Errorf("step %d: mask %#x to %v", i, r.masks[i], r.attrs[i].State)
		}
	}
	if a := r.attrs[1]; a.DestQPN != 9 || a.RQPSN != 6 || a.AV.GID != remote.GID || r.attrs[2].SQPSN != 5 {
		t.Errorf("the ends are mixed up: %+v", r.attrs)
	}
	for failAt := range 3 {
		if err := verbs.ConnectRC(&recorder{failAt: failAt}, local, remote, p); !errors.Is(err, verbs.ErrState) {
			t.Errorf("a failure in step %d gave %v", failAt, err)
		}
	}
}

func TestLength(t *testing.T) {
	wr := verbs.SendWR{SGL: []verbs.SGE{{Length: 3}, {Length: 4}}, Inline: make([]byte, 100)}
	if wr.Length() != 7 {
		t.Errorf("length of an SGL %d", wr.Length())
	}
	wr.Flags = verbs.SendInline
	if wr.Length() != 100 {
		t.Errorf("length of inline data %d", wr.Length())
	}
}
