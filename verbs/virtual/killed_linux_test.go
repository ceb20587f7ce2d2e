package virtual_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual"
)

// Programs that are killed while packets are on their way leave nothing in the device,
// which serves the next ones.
func TestKilledPrograms(t *testing.T) {
	if _, err := exec.LookPath("ibv_rc_pingpong"); err != nil {
		t.Skipf("ibv_rc_pingpong is missing: %v", err)
	}
	lib := virtualLibrary(t)
	var soft verbs.Device
	h, _ := devicesOf(t, 1, virtual.Config{}, func(d verbs.Device) { soft = d })
	counters, ok := soft.(interface{ Counters() map[string]uint64 })
	if !ok {
		t.Fatal("the back end has no counters")
	}
	env := h.Environ(os.Environ(), lib)
	for round := range uint64(3) {
		before := counters.Counters()["rcvd_pkts"]
		port := freePort(t)
		line := "ibv_rc_pingpong -g 0 -e -n 100000000 -p " + port
		s, _ := program(t, t.Context(), env, line)
		for !listens(port) {
			time.Sleep(time.Millisecond) //nolint:forbidigo // nobody says that another process listens
		}
		c, _ := program(t, t.Context(), env, line+" 127.0.0.1")
		for counters.Counters()["rcvd_pkts"] < before+100 {
			time.Sleep(time.Millisecond) //nolint:forbidigo // nobody says that packets have come
		}
		for i, cmd := range []*exec.Cmd{c, s} {
			signal := syscall.SIGKILL
			if round == 1 && i == 0 {
				signal = syscall.SIGTERM
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait() // it ends by the signal
		}
	}
	// The host is closed at the end, and fails if there is anything left.
}
