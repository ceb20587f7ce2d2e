package xsk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/roce"
)

// ErrOccupied is the error for an interface that has another XDP program.
var ErrOccupied = errors.New("the interface has another XDP program")

// Hook is the program at an interface. It steers frames to the sockets of their queues:
// untagged Ethernet, IPv4 without options or fragments, or IPv6 without extension
// headers, UDP for port 4791 of one of the addresses. All others go to the kernel.
type Hook struct {
	program *ebpf.Program
	sockets *ebpf.Map
	muted   *ebpf.Map
	link    link.Link
	native  bool
}

// Attach attaches the program to an interface: in its driver where that can, else in
// front of the kernel's own handling. It stays until Close, or until the process ends,
// however it ends. sockets are those of the queues, by number. An interface that has a
// program is an ErrOccupied.
func Attach(index int, addrs []netip.Addr, sockets []*Socket) (_ *Hook, err error) {
	h := &Hook{}
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	if h.sockets, err = ebpf.NewMap(&ebpf.MapSpec{Name: "sluice_xsk", Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: uint32(len(sockets))}); err != nil {
		return nil, fmt.Errorf("map of sockets: %w", err)
	}
	for i, s := range sockets {
		if err := h.sockets.Put(uint32(i), uint32(s.FD)); err != nil {
			return nil, fmt.Errorf("map of sockets: %w", err)
		}
	}
	if h.muted, err = ebpf.NewMap(&ebpf.MapSpec{Name: "sluice_muted", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}); err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	if h.program, err = h.load(addrs); err != nil {
		return nil, err
	}
	for _, mode := range []link.XDPAttachFlags{link.XDPDriverMode, link.XDPGenericMode} {
		h.link, err = link.AttachXDP(link.XDPOptions{Program: h.program, Interface: index, Flags: mode})
		switch {
		case err == nil:
			h.native = mode == link.XDPDriverMode
			return h, nil
		case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
			return nil, fmt.Errorf("%w%s", ErrOccupied, occupant(index))
		}
	}
	return nil, fmt.Errorf("XDP: %w", err)
}

// load loads the program for these addresses.
func (h *Hook) load(addrs []netip.Addr) (*ebpf.Program, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "sluice_xdp", Type: ebpf.XDP, License: "GPL", Instructions: instructions(addrs, h.sockets.FD(), h.muted.FD()),
	})
	if err != nil {
		return nil, fmt.Errorf("XDP program: %w", err)
	}
	return p, nil
}

// Steer has the program steer frames for other addresses from now on.
func (h *Hook) Steer(addrs []netip.Addr) error {
	p, err := h.load(addrs)
	if err != nil {
		return err
	}
	if err := h.link.Update(p); err != nil {
		_ = p.Close()
		return fmt.Errorf("XDP: %w", err)
	}
	_ = h.program.Close()
	h.program = p
	return nil
}

// occupant names the program that an interface has.
func occupant(index int) string {
	l, err := netlink.LinkByIndex(index)
	if err != nil || l.Attrs().Xdp == nil || !l.Attrs().Xdp.Attached {
		return ""
	}
	return fmt.Sprintf(", with ID %d", l.Attrs().Xdp.ProgId)
}

// Native reports whether the driver runs the program.
func (h *Hook) Native() bool { return h.native }

// Mute has the program drop management datagrams, or no longer.
func (h *Hook) Mute(mute bool) error {
	v := uint32(0)
	if mute {
		v = 1
	}
	return h.muted.Put(uint32(0), v)
}

// Close takes the program off the interface.
func (h *Hook) Close() {
	if h.link != nil {
		_ = h.link.Close()
	}
	for _, m := range []*ebpf.Map{h.sockets, h.muted} {
		if m != nil {
			_ = m.Close()
		}
	}
	if h.program != nil {
		_ = h.program.Close()
	}
}

// inOrder returns a number that has the bytes of v in network order.
func inOrder(v uint16) int32 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return int32(binary.NativeEndian.Uint16(b[:]))
}

func inOrder32(v uint32) int32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return int32(binary.NativeEndian.Uint32(b[:]))
}

// words are the words of an address as the program loads them.
func words(a netip.Addr) (w []int32) {
	for b := a.AsSlice(); len(b) > 0; b = b[4:] {
		w = append(w, int32(binary.NativeEndian.Uint32(b)))
	}
	return w
}

// instructions assembles the program. Registers: R6 the context, R2 and R3 begin and end
// of the frame, R7 the Base Transport Header.
func instructions(addrs []netip.Addr, sockets, muted int) asm.Instructions {
	const (
		pass = "pass"
		drop = "drop"
		ours = "ours"
		away = "away"
		six  = "six"
		send = "send"

		xdpDrop, xdpPass = 1, 2
		// Fields of struct xdp_md.
		mdData, mdEnd, mdMeta, mdQueue = 0, 4, 8, 16

		ip   = roce.EthernetBytes
		bth4 = ip + roce.IPv4Bytes + roce.UDPBytes
		bth6 = ip + roce.IPv6Bytes + roce.UDPBytes
		udp  = unix.IPPROTO_UDP
	)
	p := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R2, asm.R1, mdData, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, mdEnd, asm.Word),
		asm.Mov.Reg(asm.R7, asm.R2),
		asm.Add.Imm(asm.R7, bth4),
		asm.JGT.Reg(asm.R7, asm.R3, pass),
		asm.LoadMem(asm.R5, asm.R2, ip-2, asm.Half),
		asm.JEq.Imm(asm.R5, inOrder(roce.EtherTypeIPv6), six),
		asm.JNE.Imm(asm.R5, inOrder(roce.EtherTypeIPv4), pass),

		asm.LoadMem(asm.R5, asm.R2, ip, asm.Byte),
		asm.JNE.Imm(asm.R5, 0x45, pass),
		asm.LoadMem(asm.R5, asm.R2, ip+9, asm.Byte),
		asm.JNE.Imm(asm.R5, udp, pass),
		asm.LoadMem(asm.R5, asm.R2, ip+6, asm.Half),
		asm.And.Imm(asm.R5, inOrder(0x3fff)), // more fragments, and the offset
		asm.JNE.Imm(asm.R5, 0, pass),
		asm.LoadMem(asm.R5, asm.R2, ip+roce.IPv4Bytes+2, asm.Half),
		asm.JNE.Imm(asm.R5, inOrder(roce.Port), pass),
		asm.LoadMem(asm.R5, asm.R2, ip+16, asm.Word),
	}
	for _, a := range addrs {
		if a.Is4() {
			p = append(p, asm.JEq.Imm32(asm.R5, words(a)[0], ours))
		}
	}
	p = append(p,
		asm.Ja.Label(pass),

		asm.Mov.Reg(asm.R7, asm.R2).WithSymbol(six),
		asm.Add.Imm(asm.R7, bth6),
		asm.JGT.Reg(asm.R7, asm.R3, pass),
		asm.LoadMem(asm.R5, asm.R2, ip, asm.Byte),
		asm.And.Imm(asm.R5, 0xf0),
		asm.JNE.Imm(asm.R5, 0x60, pass),
		asm.LoadMem(asm.R5, asm.R2, ip+6, asm.Byte),
		asm.JNE.Imm(asm.R5, udp, pass),
		asm.LoadMem(asm.R5, asm.R2, ip+roce.IPv6Bytes+2, asm.Half),
		asm.JNE.Imm(asm.R5, inOrder(roce.Port), pass),
	)
	for i, a := range addrs {
		if !a.Is6() {
			continue
		}
		next := fmt.Sprintf("not %d", i)
		for k, w := range words(a) {
			p = append(p, asm.LoadMem(asm.R5, asm.R2, int16(ip+24+4*k), asm.Word), asm.JNE.Imm32(asm.R5, w, next))
		}
		p = append(p, asm.Ja.Label(ours), asm.Mov.Imm(asm.R5, 0).WithSymbol(next))
	}
	return append(p,
		asm.Ja.Label(pass),

		// The destination queue pair is the last 24 bits of the header's second word (IBA
		// 9.2). Packets for queue pair 1 are dropped while they are muted.
		asm.Mov.Reg(asm.R4, asm.R7).WithSymbol(ours),
		asm.Add.Imm(asm.R4, roce.BTHBytes),
		asm.JGT.Reg(asm.R4, asm.R3, away),
		asm.LoadMem(asm.R5, asm.R7, 4, asm.Word),
		asm.And.Imm32(asm.R5, inOrder32(1<<24-1)),
		asm.JNE.Imm32(asm.R5, inOrder32(roce.GSIQP), away),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, muted),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, away),
		asm.LoadMem(asm.R5, asm.R0, 0, asm.Word),
		asm.JNE.Imm(asm.R5, 0, drop),

		// The stamp, where the driver has room for it.
		asm.Mov.Reg(asm.R1, asm.R6).WithSymbol(away),
		asm.Mov.Imm(asm.R2, -StampBytes),
		asm.FnXdpAdjustMeta.Call(),
		asm.JNE.Imm(asm.R0, 0, send),
		asm.FnKtimeGetNs.Call(),
		asm.LoadMem(asm.R1, asm.R6, mdMeta, asm.Word),
		asm.LoadMem(asm.R2, asm.R6, mdData, asm.Word),
		asm.Mov.Reg(asm.R3, asm.R1),
		asm.Add.Imm(asm.R3, StampBytes),
		asm.JGT.Reg(asm.R3, asm.R2, send),
		asm.StoreMem(asm.R1, 0, asm.R0, asm.DWord),

		asm.LoadMem(asm.R2, asm.R6, mdQueue, asm.Word).WithSymbol(send),
		asm.LoadMapPtr(asm.R1, sockets),
		asm.Mov.Imm(asm.R3, xdpPass), // where the queue has no socket
		asm.FnRedirectMap.Call(),
		asm.Return(),

		asm.Mov.Imm(asm.R0, xdpDrop).WithSymbol(drop),
		asm.Return(),
		asm.Mov.Imm(asm.R0, xdpPass).WithSymbol(pass),
		asm.Return(),
	)
}
