//go:build linux

package virtual

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-rdma/sluice/internal/rundir"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/sysfs"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/ucma"
)

// Host shows devices to programs: a directory that stands for sysfs and /dev/infiniband,
// and a server for programs that open them.
type Host struct {
	dir     *rundir.Dir
	server  *guest.Server
	devices []*Device
	cm      *ucma.Host
	sim     *Simulation // nil in real time
	tree    []sysfs.Device

	mu      sync.Mutex // of tree, and of the files of counters and ports
	counted time.Time  // when they were written
}

// maxSocketPath is the longest address of a UNIX socket, less the closing zero.
const maxSocketPath = 107

// Serve shows devices to programs that run with Environ, of this user alone. The Host
// owns the devices, if it succeeds.
func Serve(devices ...*Device) (*Host, error) { return serve(nil, devices...) }

func serve(sim *Simulation, devices ...*Device) (*Host, error) {
	dir, err := rundir.Make("sluice-virtual-")
	if err != nil {
		return nil, err
	}
	h := &Host{dir: dir, devices: devices, sim: sim}
	if err := h.serve(); err != nil {
		if h.cm != nil {
			h.cm.Close()
		}
		return nil, errors.Join(err, dir.Remove())
	}
	return h, nil
}

func (h *Host) serve() error {
	socket := filepath.Join(h.dir.Path, "socket")
	if len(socket) > maxSocketPath {
		return fmt.Errorf("%s: longer than a socket's name can be: set TMPDIR to a shorter directory", socket)
	}
	for i, d := range h.devices {
		d.onChange(func() { h.onChange(i) })
	}
	h.mu.Lock()
	h.describe()
	h.mu.Unlock()
	if err := errors.Join(sysfs.Write(h.dir.Path, h.tree, true), h.writeCounters()); err != nil {
		return err
	}
	c, open := ucma.Config{}, h.open
	for _, d := range h.devices {
		c.Devices = append(c.Devices, ucma.Device{Verbs: d.backend, NodeGUID: d.nodeGUID()})
	}
	if h.sim != nil { // where a host has one device
		if err := h.sim.simulateCM(&c, h.devices[0]); err != nil {
			return err
		}
		open = func(p *guest.Process, node string) (guest.File, *os.File, syscall.Errno) {
			return h.sim.open(p, func() (guest.File, *os.File, syscall.Errno) { return h.open(p, node) })
		}
	}
	cm, err := ucma.New(c)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.cm = cm
	for _, d := range h.devices { // they may have changed meanwhile
		cm.Changed(d.backend)
	}
	h.mu.Unlock()
	h.server, err = guest.Listen(socket, open, h.sim != nil)
	return err
}

func (h *Host) describe() {
	pci := sysfs.FreePCI(len(h.devices))
	for i, d := range h.devices {
		port, model := d.Port(), d.ofModel()
		h.tree = append(h.tree, sysfs.Device{
			Name: d.Name(), Node: nodeName(i), PCI: pci[i],
			PartID: model.partID, Firmware: model.firmware(), BoardID: model.boardID, NodeGUID: d.nodeGUID(),
			Interface: port.Netdev,
		})
		describePort(&h.tree[i], d)
	}
}

// describePort describes a device's port as it is now.
func describePort(t *sysfs.Device, d *Device) {
	port := d.Port()
	t.Rate, t.Active, t.GIDs = units.Rate(port.LinkRate), port.State == verbs.PortActive, d.gids()
	t.GIDTable = len(t.GIDs)
}

// onChange writes the files of a device's port anew. What can't be written stays as it was.
func (h *Host) onChange(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	describePort(&h.tree[i], h.devices[i])
	_ = sysfs.WritePort(h.dir.Path, &h.tree[i])
	if h.cm != nil {
		h.cm.Changed(h.devices[i].backend)
	}
}

// countersLast is the time for which counters are fresh: who reads a port's reads all of them.
const countersLast = 10 * time.Millisecond

// writeCounters writes what the devices have counted into the tree.
func (h *Host) writeCounters() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sim == nil && time.Since(h.counted) < countersLast { // in simulated time each look is as good as its time
		return nil
	}
	for i, d := range h.devices {
		c, ok := d.backend.(interface{ Counters() map[string]uint64 })
		if !ok {
			continue
		}
		if err := sysfs.WriteCounters(h.dir.Path, &h.tree[i], c.Counters()); err != nil {
			return err
		}
	}
	h.counted = time.Now()
	return nil
}

func nodeName(i int) string { return fmt.Sprintf("uverbs%d", i) }

func (h *Host) open(p *guest.Process, node string) (guest.File, *os.File, syscall.Errno) {
	switch node {
	case "rdma_cm":
		return h.cm.Open(p)
	case "counters": // none, but the library asks before a program reads them
		if h.writeCounters() != nil {
			return nil, nil, syscall.EIO
		}
	}
	for i, d := range h.devices {
		if node == nodeName(i) {
			return d.openNode(p)
		}
	}
	return nil, nil, syscall.ENOENT
}

// Dir is the directory that has what sysfs and /dev have of the devices, below its sys and
// dev.
func (h *Host) Dir() string { return h.dir.Path }

// Paths are those of the machine at which programs find that: each leads into Dir as a whole.
func (h *Host) Paths() []string { return sysfs.Paths(h.tree) }

// Environ returns environ with what a program needs to see the devices. library is the
// path of libsluice-virtual.so.
func (h *Host) Environ(environ []string, library string) []string {
	var out []string
	preload := library
	for _, v := range environ {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "LD_PRELOAD":
			if value != "" {
				preload += ":" + value
			}
		case "SLUICE_VIRTUAL", "SYSFS_PATH":
		default:
			out = append(out, v)
		}
	}
	return append(out, "LD_PRELOAD="+preload, "SLUICE_VIRTUAL="+h.dir.Path, "SYSFS_PATH="+h.dir.Path+"/sys")
}

// Close closes the devices, under programs that still use them, too: their calls fail
// with EIO.
func (h *Host) Close() error {
	err := h.server.Close()
	if h.cm != nil {
		h.cm.Close()
	}
	for _, d := range h.devices {
		err = errors.Join(err, d.Close())
	}
	return errors.Join(err, h.dir.Remove())
}
