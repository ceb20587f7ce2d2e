package perf

import (
	"io"
	"sync"

	"github.com/sluice-rdma/sluice/verbs"
)

// whileThere runs f, which waits for the other end by conn. When the device goes meanwhile,
// as with its network interface, it closes conn, for the other end may not be reached any
// more, and f's error says what has gone.
func whileThere(dev verbs.Device, conn io.Closer, f func() error) error {
	lost, ok := verbs.Bottom(dev).(verbs.LostDevice)
	if !ok || lost.Gone() == nil {
		return f()
	}
	done, closed := make(chan struct{}), false
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-lost.Gone():
			closed = true
			_ = conn.Close()
		case <-done:
		}
	})
	err := f()
	close(done)
	watch.Wait()
	switch {
	case err == nil && closed: // it took the end of conn for the other end's
		return verbs.Errorf("test", dev.Name(), verbs.ErrNoDevice, "its network interface is gone")
	case err == nil:
		return nil
	}
	select {
	case <-lost.Gone():
		return verbs.Errorf("test", dev.Name(), verbs.ErrNoDevice, "its network interface is gone: %v", err)
	default:
		return err
	}
}
