//go:build linux

package virtual

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/sysfs"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/ucma"
)

// Host shows devices to programs: a directory with what sysfs and /dev/infiniband would
// have of them, and a server for those that open them. Connections by rdma_cm are the
// first device's.
type Host struct {
	dir     string
	server  *guest.Server
	devices []*Device
	cm      *ucma.Host // of the first device
}

// maxSocketPath is what a UNIX socket's address has room for, less the closing zero.
const maxSocketPath = 107

// Serve shows devices to programs that run with Environ, of this user alone. The Host
// owns the devices, if it succeeds.
func Serve(devices ...*Device) (*Host, error) {
	dir, err := os.MkdirTemp("", "sluice-virtual-")
	if err != nil {
		return nil, err
	}
	h := &Host{dir: dir, devices: devices}
	if err := h.serve(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return h, nil
}

func (h *Host) serve() error {
	socket := filepath.Join(h.dir, "socket")
	if len(socket) > maxSocketPath {
		return fmt.Errorf("%s: longer than a socket's name can be: set TMPDIR to a shorter directory", socket)
	}
	err := sysfs.Write(h.dir, h.tree(), len(h.devices) > 0)
	if err != nil {
		return err
	}
	if len(h.devices) > 0 {
		first := h.devices[0]
		if h.cm, err = ucma.New(ucma.Config{Device: first.backend, NodeGUID: first.NodeGUID()}); err != nil {
			return err
		}
	}
	if h.server, err = guest.Listen(socket, h.open); err != nil && h.cm != nil {
		h.cm.Close()
	}
	return err
}

func (h *Host) tree() []sysfs.Device {
	var tree []sysfs.Device
	pci := sysfs.FreePCI(len(h.devices))
	for i, d := range h.devices {
		port, model := d.Port(), d.Model()
		tree = append(tree, sysfs.Device{
			Name: d.Name(), Node: nodeName(i), PCI: pci[i],
			PartID: model.PartID, Firmware: model.Firmware(), BoardID: model.BoardID, NodeGUID: d.NodeGUID(),
			Rate: units.Rate(port.LinkRate), Active: port.State == verbs.PortActive, Interface: port.Netdev,
			GIDs: d.GIDs(), GIDTable: len(d.GIDs()),
		})
	}
	return tree
}

func nodeName(i int) string { return fmt.Sprintf("uverbs%d", i) }

func (h *Host) open(p *guest.Process, node string) (guest.File, *os.File, syscall.Errno) {
	for i, d := range h.devices {
		if node == nodeName(i) {
			return d.OpenNode(p)
		}
	}
	if node == "rdma_cm" && h.cm != nil {
		return h.cm.Open(p)
	}
	return nil, nil, syscall.ENOENT
}

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
	return append(out, "LD_PRELOAD="+preload, "SLUICE_VIRTUAL="+h.dir, "SYSFS_PATH="+h.dir+"/sys")
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
	return errors.Join(err, os.RemoveAll(h.dir))
}
