package softroce

import (
	"errors"
	"net/netip"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/internal/netif"
	"github.com/sluice-rdma/sluice/verbs"
)

// watch follows the device's interface.
type watch struct {
	*netif.Watch
	namespace *os.File // the network namespace that it is in
}

// Close frees what the watch holds.
func (w *watch) Close() {
	w.Watch.Close()
	_ = w.namespace.Close()
}

// startWatch begins to follow the interface, in the calling thread's network
// namespace.
func (d *device) startWatch() error {
	w, err := netif.NewWatch(d.link.index)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return verbs.Errorf("open", d.name, verbs.ErrNoDevice, "interface %s has gone meanwhile", d.link.name)
	case err != nil:
		return verbs.Errorf("open", d.name, err, "following interface %s", d.link.name)
	}
	namespace, err := os.Open(ownNamespace)
	if err != nil {
		w.Close()
		return verbs.Errorf("open", d.name, err, "the thread's network namespace")
	}
	d.watch = &watch{w, namespace}
	return nil
}

const ownNamespace = "/proc/thread-self/ns/net"

// follow keeps the port as the interface is, until the device is closed.
func (d *device) follow() {
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	if d.enter() != nil {
		return // nothing that would be opened here belonged to the interface
	}
	f := d.watch.Facts() // may have changed since the device was opened
	for err := error(nil); err == nil; f, err = d.watch.Next() {
		d.change(&f)
	}
}

// enter takes the calling thread to the interface's network namespace.
func (d *device) enter() error {
	here, err := os.Stat(ownNamespace)
	if err != nil {
		return err
	}
	there, err := d.watch.namespace.Stat()
	if err != nil || os.SameFile(here, there) {
		return err
	}
	return unix.Setns(int(d.watch.namespace.Fd()), unix.CLONE_NEWNET)
}

// change takes a change of the interface.
func (d *device) change(f *netif.Facts) {
	addrs, _ := addresses(f)
	if d.link.only {
		own := d.link.addrs[0]
		addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { return a != own })
		if len(addrs) == 0 && owns(f, nil, own) {
			addrs = []netip.Addr{own}
		}
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	d.mu.Lock()
	was := d.port
	next := was.follow(f, addrs, d.core.GIDUsed, d.opt.collect.bytes())
	if d.opt.Mode == modeXDP { // whose frames have room for what the interface had at first
		next.mtu = min(next.mtu, d.mtu)
	}
	d.mu.Unlock()
	switch {
	case next.gone && was.gone:
	case next.gone:
		d.end(&was, &next)
	case slices.Equal(was.gids, next.gids) && was.active == next.active:
		d.become(&was, &next)
	default:
		d.pause()
		d.wire.readdress(next.gids)
		d.become(&was, &next)
		d.resume()
	}
}
