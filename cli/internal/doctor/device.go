package doctor

import (
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// device looks at what the device says of itself.
func (e *examination) device() {
	s := e.report.section("device")
	a := e.dev.Attr()
	s.add(OK, "identity", "vendor %#06x, part %d, firmware %q, GUID %016x", a.VendorID, a.VendorPartID, a.FirmwareVersion, a.NodeGUID)
	s.add(OK, "limits", "%d queue pairs of %d requests, %d completion queues, inline data up to %d bytes, %d reads outstanding",
		a.MaxQP, a.MaxQPWR, a.MaxCQ, a.MaxInlineData, a.MaxQPInitRdAtom)
	if !a.Atomics {
		s.add(Note, "atomics", "the device has none")
	}
	for num := 1; num <= a.PhysPorts; num++ {
		p, err := e.dev.Port(num)
		if err != nil {
			s.add(Fail, "port", "%d: %v", num, err)
			continue
		}
		e.port(s, num, p)
	}
}

func (e *examination) port(s *Section, num int, p verbs.PortAttr) {
	if p.State != verbs.PortActive {
		level := Fail
		if num != e.options.Port {
			level = Note
		}
		s.add(level, "port state", "port %d is not active", num).mend("bring its network interface %s up", p.Netdev)
		return
	}
	s.add(OK, "port", "%d: active, %v, network interface %s", num, units.Rate(p.LinkRate), orNone(p.Netdev))
	if p.LinkRate <= 0 {
		s.add(Warn, "line rate", "port %d does not tell it: engines need it", num).mend("set paced.Config.LineRate")
	}
	if p.ActiveMTU < p.MaxMTU && p.ActiveMTU < ib.MTU(4096) {
		s.add(Note, "MTU", "port %d: %d of at most %d bytes: more packets, and more headers, for the same data", num, p.ActiveMTU, p.MaxMTU).
			mend("raise the MTU of %s to %d or more, and that of the path", orNone(p.Netdev), int(p.MaxMTU)+headerRoom)
	} else {
		s.add(OK, "MTU", "port %d: %d bytes", num, p.ActiveMTU)
	}
	routable := 0
	for i := range p.GIDs {
		if gid, err := e.dev.GID(num, i); err == nil && gid.IsValid() && !gid.IsUnspecified() && !linkLocal(gid) {
			routable++
		}
	}
	if routable == 0 {
		s.add(Warn, "GIDs", "port %d has none of a routable address: only hosts of the same link can be reached", num).
			mend("give %s an IP address", orNone(p.Netdev))
	} else {
		s.add(OK, "GIDs", "port %d: %d, of them %d with a routable address", num, p.GIDs, routable)
	}
}

// headerRoom is a RoCEv2 packet's largest overhead beside its payload: IPv6, UDP,
// BTH, AtomicETH and ICRC, rounded up as the kernel's soft-RoCE does.
const headerRoom = 80

func linkLocal(a netip.Addr) bool { return a.Unmap().IsLinkLocalUnicast() }

func orNone(name string) string {
	if name == "" {
		return "(not known)"
	}
	return name
}
