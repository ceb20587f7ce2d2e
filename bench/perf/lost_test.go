package perf

import (
	"errors"
	"net"
	"testing"

	"github.com/sluice-rdma/sluice/verbs"
)

type goingDevice struct {
	verbs.Device
	gone chan struct{}
}

func (d goingDevice) Gone() <-chan struct{} { return d.gone }
func (goingDevice) Name() string            { return "soft:gone" }

// An end whose device goes does not wait for the other one.
func TestDeviceGoesMeanwhile(t *testing.T) {
	d := goingDevice{gone: make(chan struct{})}
	here, there := net.Pipe()
	defer there.Close()
	if err := whileThere(d, here, func() error { return nil }); err != nil {
		t.Errorf("an end that is done: %v", err)
	}
	cause := errors.New("another cause")
	if err := whileThere(d, here, func() error { return cause }); !errors.Is(err, cause) {
		t.Errorf("another error: %v", err)
	}
	close(d.gone)
	for _, kept := range []bool{true, false} {
		here, there := net.Pipe()
		defer there.Close()
		err := whileThere(d, here, func() error {
			_, err := here.Read(make([]byte, 1)) // of which nothing comes
			if kept {
				return err
			}
			return nil
		})
		if !errors.Is(err, verbs.ErrNoDevice) {
			t.Errorf("a device that went: %v", err)
		}
	}
}
