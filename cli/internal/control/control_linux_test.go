package control

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// device notes what is asked of it, and has queue pair 17 alone.
type device struct {
	verbs.Device
	mu      sync.Mutex
	noted   []string
	reached chan struct{} // closed when so many are noted
	most    int
}

func (d *device) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.noted = append(d.noted, fmt.Sprintf(format, args...)); len(d.noted) == d.most {
		close(d.reached)
	}
}

func (d *device) Name() string { return "soft:test" }

func (d *device) SetPort(up bool) { d.note("port up %v", up) }

func (d *device) FailQP(num uint32) bool {
	d.note("queue pair %d", num)
	return num == 17
}

func (d *device) Die() { d.note("dies") }

func (d *device) FailLink(f verbs.LinkFailure) error {
	d.note("link %+v", f)
	return nil
}

func (d *device) FailCall(f verbs.CallFailure) error {
	d.note("call %+v", f)
	return nil
}

// other is a device that can't be made to fail.
type other struct{ verbs.Device }

func (other) Name() string { return "ibv:other" }

// serving returns the path of a server for the device, which notes so many calls.
func serving(t *testing.T, most int) (*device, *Server, string) {
	t.Helper()
	d := &device{reached: make(chan struct{}), most: most}
	path := filepath.Join(t.TempDir(), "s")
	s, err := Listen(path, map[string]verbs.Device{"mlx5_0": d, "mlx5_1": other{}})
	if err != nil {
		t.Fatal(err)
	}
	return d, s, path
}

const whole = "link {Silent:false OneWay:false Rate:0bps Delay:0s Loss:0}"

// Requests reach the device in order, and courses run until another takes their place.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		name string
		ask  []Request
		want []string
	}{
		{"queue pair", []Request{{Device: "mlx5_0", QP: 17}}, []string{"queue pair 17"}},
		{
			"completion", []Request{{Device: "mlx5_0", QP: 17, Completion: &Completion{Status: scenario.Status(ib.WCRemAccessErr), VendorErr: 0x77, After: 3}}},
			[]string{"call {Call:2 QP:17 After:3 Errno:errno 0 Status:remote access error VendorErr:119}"},
		},
		{"device", []Request{{Device: "mlx5_0", Dies: true}}, []string{"dies"}},
		{"down, and whole", []Request{{Device: "mlx5_0", Port: &Failure{Down: true}}, {Device: "mlx5_0", Port: &Failure{}}}, []string{whole, "port up false", whole, "port up true"}},
		{
			"link", []Request{{Device: "mlx5_0", Port: &Failure{Silent: true, OneWay: true, Rate: units.Gbps, Delay: units.Millisecond, Loss: 0.5}}},
			[]string{"link {Silent:true OneWay:true Rate:1Gbps Delay:1ms Loss:0.5}", "port up true"},
		},
		{
			"flaps", []Request{{Device: "mlx5_0", Port: &Failure{Down: true, For: units.Millisecond, Every: 2 * units.Millisecond, Times: 2}}},
			[]string{whole, "port up false", whole, "port up true", whole, "port up false", whole, "port up true"},
		},
		{
			"another takes its place", []Request{{Device: "mlx5_0", Port: &Failure{Down: true, For: units.Second * 3600}}, {Device: "mlx5_0", Port: &Failure{Loss: 1}}},
			[]string{whole, "port up false", "link {Silent:false OneWay:false Rate:0bps Delay:0s Loss:1}", "port up true"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, s, path := serving(t, len(c.want))
			for i := range c.ask {
				if err := Ask(t.Context(), path, &c.ask[i]); err != nil {
					t.Fatal(err)
				}
			}
			<-d.reached
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if !slices.Equal(d.noted, c.want) {
				t.Errorf("noted\n%s\nexpected\n%s", strings.Join(d.noted, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// What can't be done is refused, with the reason, and reaches no device.
func TestRefusals(t *testing.T) {
	d, s, path := serving(t, 2)
	for _, c := range []struct{ request, want string }{
		{`{"device": "mlx5_2", "dies": true}`, `no device \"mlx5_2\": there is mlx5_0, mlx5_1`},
		{`{"device": "mlx5_1", "dies": true}`, "mlx5_1, which is ibv:other, can't be made to fail"},
		{`{"device": "mlx5_0", "port": {"loss": 2}}`, "flags: loss is 2: choose a probability from 0 to 1"},
		{`{"device": "mlx5_0", "port": {"down": true, "for": "2s", "every": "1s"}}`, "--every 1s is not longer than --for 2s"},
		{`{"device": "mlx5_0", "port": {"down": true, "every": "1s"}}`, "--every needs --for"},
		{`{"device": "mlx5_0", "port": {"down": true, "for": "1s", "times": 2}}`, "--times needs --every"},
		{`{"device": "mlx5_0", "port": {"one_way": true}}`, "--one-way says how --silent is meant"},
		{`{"device": "mlx5_0", "port": {"for": "1s"}}`, "nothing says how"},
		{`{"device": "mlx5_0", "qp": 17, "completion": {"status": "WRONG"}}`, `\"WRONG\" is no status of an error`},
		{`{"device": "mlx5_0", "ports": 1}`, `unknown field \"ports\"`},
		{`{"device": 1}`, "the request: json"},
		{"nonsense", "the request: invalid character"},
		{`{"device": "` + strings.Repeat("x", 2*longest), "it ends early, or has more than 4096 bytes"},
		{`{"device": "mlx5_0", "qp": 18}`, "mlx5_0 has no queue pair 0x12"},
		{`{"device": "mlx5_0"}`, "mlx5_0 has no queue pair 0x0"},
	} {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(c.request + "\n")); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 1<<16)
		if n, err := conn.Read(answer); err != nil || !strings.Contains(string(answer[:n]), c.want) {
			t.Errorf("%.80s: answered %s (%v), expected %s", c.request, answer[:n], err, c.want)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if want := []string{"queue pair 18", "queue pair 0"}; !slices.Equal(d.noted, want) {
		t.Errorf("noted %q, expected %q", d.noted, want)
	}
}

// A socket is its user's alone, takes no other's place, and goes with its server.
func TestSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	s, err := Listen(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), expected 0600", info.Mode(), err)
	}
	refused := func(path, want string) {
		t.Helper()
		if s, err := Listen(path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected: %s", err, want)
			if err == nil {
				_ = s.Close()
			}
		}
	}
	refused(path, "another process listens at "+path)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	if err := Ask(context.Background(), path, &Request{}); err == nil || !strings.Contains(err.Error(), "is there a sluice virtual --control "+path) {
		t.Errorf("asked where nobody listens: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	refused(path, "is no socket")
	refused(filepath.Join(dir, strings.Repeat("x", 200)), "choose a shorter one")
	refused(filepath.Join(dir, "nowhere", "s"), "no such file or directory")

	// What a process that was killed leaves.
	left := filepath.Join(dir, "left")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Listen(left, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
