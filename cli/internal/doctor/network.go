package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// flow is a network interface's setting of flow control: for its eight priorities,
// and for the link as a whole.
type flow struct {
	pfc            uint8 // priorities with PFC
	pfcError       error
	rx, tx         bool // pause frames for the whole link
	pauseError     error
	pauses, paused [8]uint64 // PFC frames sent and received, by priority
}

// network looks at the settings of flow control and congestion marks that the host
// can see. What the switches do it can't.
func (e *examination) network() {
	s := e.report.section("network")
	p, err := e.dev.Port(e.options.Port)
	if err != nil || p.Netdev == "" {
		s.add(Note, "settings", "no network interface is known for port %d: flow control can't be seen", e.options.Port)
		return
	}
	if left := abandoned(p.Netdev); len(left) > 0 {
		s.add(Warn, "filters of a killed process", "%d on %s: they do nothing, and cost each packet a little", len(left), p.Netdev).
			mend("tc filter del %s", strings.Join(left, "; tc filter del "))
	}
	f := flowControl(p.Netdev)
	switch {
	case f.pfcError == nil && f.pfc != 0:
		s.add(OK, "priority flow control", "on for priorities %s of %s; %s", bits(f.pfc), p.Netdev, pauseCounts(&f))
	case f.pfcError == nil:
		s.add(Note, "priority flow control", "off on %s: packets are lost where a buffer is full, and go-back-N makes that dear", p.Netdev).
			mend("either engine keeps queues short; for a lossless class: dcb pfc set dev %s prio-pfc 3:on, and the same in the switches", p.Netdev)
	default:
		s.add(Note, "priority flow control", "can't be seen on %s: %v", p.Netdev, f.pfcError)
	}
	switch {
	case f.pauseError != nil:
		s.add(Note, "link pause", "can't be seen on %s: %v", p.Netdev, f.pauseError)
	case f.pfc != 0 && (f.rx || f.tx):
		s.add(Warn, "link pause", "on beside PFC (receive %v, send %v): a switch takes one or the other", f.rx, f.tx).
			mend("ethtool -A %s rx off tx off", p.Netdev)
	default:
		s.add(OK, "link pause", "receive %v, send %v", f.rx, f.tx)
	}
	for _, side := range []struct{ name, dir string }{
		{"receiver sends CNPs for ECN marks", "roce_np"}, {"sender heeds CNPs", "roce_rp"},
	} {
		on, off, found := e.perPriority("sys/class/net/" + p.Netdev + "/ecn/" + side.dir + "/enable")
		if !found {
			s.add(Note, side.name, "the driver of %s does not say (no /sys/class/net/%s/ecn)", p.Netdev, p.Netdev)
			continue
		}
		s.add(OK, side.name, "priorities on: %s, off: %s", orNothing(on), orNothing(off))
	}
}

// perPriority reads a directory of one switch for each priority.
func (e *examination) perPriority(dir string) (on, off string, found bool) {
	var ons, offs []string
	for prio := range 8 {
		switch e.read(fmt.Sprintf("%s/%d", dir, prio)) {
		case "1":
			ons = append(ons, fmt.Sprint(prio))
		case "0":
			offs = append(offs, fmt.Sprint(prio))
		}
	}
	return strings.Join(ons, " "), strings.Join(offs, " "), len(ons)+len(offs) > 0
}

func bits(mask uint8) string {
	var names []string
	for i := range 8 {
		if mask&(1<<i) != 0 {
			names = append(names, fmt.Sprint(i))
		}
	}
	return orNothing(strings.Join(names, " "))
}

func pauseCounts(f *flow) string {
	var sent, received uint64
	for i := range 8 {
		sent += f.pauses[i]
		received += f.paused[i]
	}
	return fmt.Sprintf("%d pause frames sent, %d received", sent, received)
}

func orNothing(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// plainly says what a refusal of the kernel means here.
func plainly(err error) error {
	switch {
	case errors.Is(err, syscall.EOPNOTSUPP):
		return errors.New("its driver has no such setting")
	case errors.Is(err, syscall.EPERM):
		return errors.New("it takes root")
	}
	return err
}

// firmware looks for congestion control that the NIC runs itself: two controllers
// on one queue pair undo each other's work.
func (e *examination) firmware() {
	s := e.report.section("the NIC's own congestion control")
	p, err := e.dev.Port(e.options.Port)
	if err != nil || p.Netdev == "" {
		s.add(Note, "DCQCN", "no network interface is known for the port: nothing can be seen")
		return
	}
	on, _, found := e.perPriority("sys/class/net/" + p.Netdev + "/ecn/roce_rp/enable")
	params, _ := fs.Glob(e.root, "sys/kernel/debug/mlx5/*/cc_params")
	pci := e.pci(p.Netdev)
	switch {
	case found && on != "":
		s.add(Warn, "DCQCN", "the NIC lowers the rate of queue pairs of priorities %s when CNPs come: it and Sluice's engine fight over them", on).
			mend("turn it off for the priority that Sluice paces: echo 0 > /sys/class/net/%s/ecn/roce_rp/enable/PRIORITY; or pace with the engine none and leave it to the NIC", p.Netdev)
	case found:
		s.add(OK, "DCQCN", "off for every priority")
	case contains(params, pci):
		s.add(Warn, "DCQCN", "the firmware has it (%s), and the driver has no switch for each priority: it is on wherever the firmware's configuration says so", "/sys/kernel/debug/mlx5/"+pci+"/cc_params").
			mend("look with mlxconfig -d %s q ROCE_CC_PRIO_MASK_P%d, and turn it off for a priority with mlxconfig -d %s set ROCE_CC_PRIO_MASK_P%d=MASK and a reset", pci, e.options.Port, pci, e.options.Port)
	default:
		s.add(Note, "DCQCN", "nothing of it is to be seen: the NIC has none, or debugfs is not mounted or takes root, or the driver is not mlx5")
	}
	if pci != "" && e.read("sys/bus/pci/devices/"+pci+"/vendor") == mellanox {
		s.add(Note, "zero-touch RoCE", "whether the firmware runs its RTT-based control can't be seen from here").
			mend("mlxreg -d %s --reg_name ROCE_ACCEL --get shows it (roce_tx_window_en, adaptive retransmission); it too fights with an engine of the host", pci)
	}
}

const mellanox = "0x15b3"

// pci is the PCI address of a network interface, empty if it has none.
func (e *examination) pci(netdev string) string {
	for line := range strings.Lines(e.read("sys/class/net/" + netdev + "/device/uevent")) {
		if slot, ok := strings.CutPrefix(strings.TrimSpace(line), "PCI_SLOT_NAME="); ok {
			return slot
		}
	}
	return ""
}

func contains(paths []string, pci string) bool {
	for _, p := range paths {
		if pci != "" && strings.Contains(p, "/"+pci+"/") {
			return true
		}
	}
	return false
}
