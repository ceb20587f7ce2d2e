package doctor

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The kernel's numbers for data center bridging (linux/dcbnl.h) that x/sys has
// not.
const (
	dcbCmdIEEEGet  = 21
	dcbAttrIfname  = 1
	dcbAttrIEEE    = 13
	dcbAttrIEEEPFC = 2
)

// flowControl asks the kernel for the flow control of a network interface.
func flowControl(netdev string) flow {
	var f flow
	reply, err := askDCB(netdev)
	if err == nil {
		err = f.parsePFC(reply)
	}
	f.pfcError = plainly(err)
	f.rx, f.tx, err = linkPause(netdev)
	f.pauseError = plainly(err)
	return f
}

// dcbMessage is struct dcbmsg.
type dcbMessage struct{ family, command byte }

func (m dcbMessage) Len() int          { return 4 }
func (m dcbMessage) Serialize() []byte { return []byte{m.family, m.command, 0, 0} }

// askDCB returns the attributes of what the kernel answers.
func askDCB(netdev string) ([]byte, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETDCB, 0)
	req.AddData(dcbMessage{unix.AF_UNSPEC, dcbCmdIEEEGet})
	req.AddData(nl.NewRtAttr(dcbAttrIfname, append([]byte(netdev), 0)))
	messages, err := req.Execute(unix.NETLINK_ROUTE, 0)
	if err != nil {
		return nil, err
	}
	if len(messages) == 0 || len(messages[0]) < 4 {
		return nil, errors.New("the kernel's answer is empty")
	}
	return messages[0][4:], nil
}

// parsePFC reads struct ieee_pfc: the number of classes, the enabled ones, a flag,
// the delay, and the counts of frames sent and received for each priority.
func (f *flow) parsePFC(attributes []byte) error {
	pfc, err := attribute(attributes, dcbAttrIEEE)
	if err != nil {
		return err
	}
	if pfc, err = attribute(pfc, dcbAttrIEEEPFC); err != nil {
		return err
	}
	const counts = 8 // 3 bytes, a hole, 2 bytes and a hole
	if len(pfc) < counts+2*8*8 {
		return errors.New("the kernel's answer is too short")
	}
	f.pfc = pfc[1]
	for i := range 8 {
		f.pauses[i] = binary.NativeEndian.Uint64(pfc[counts+8*i:])
		f.paused[i] = binary.NativeEndian.Uint64(pfc[counts+64+8*i:])
	}
	return nil
}

// attribute finds an attribute's data.
func attribute(b []byte, kind uint16) ([]byte, error) {
	attributes, err := nl.ParseRouteAttr(b)
	if err != nil {
		return nil, err
	}
	for _, a := range attributes {
		if a.Attr.Type&^unix.NLA_F_NESTED == kind {
			return a.Value, nil
		}
	}
	return nil, unix.EOPNOTSUPP
}

// linkPause asks whether pause frames for the whole link are heeded and sent
// (ETHTOOL_GPAUSEPARAM).
func linkPause(netdev string) (rx, tx bool, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, false, err
	}
	var pause struct{ cmd, autoneg, rx, tx uint32 }
	pause.cmd = unix.ETHTOOL_GPAUSEPARAM
	var request struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(request.name[:unix.IFNAMSIZ-1], netdev)
	request.data = unsafe.Pointer(&pause)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if err := unix.Close(fd); err != nil {
		return false, false, err
	}
	if errno != 0 {
		return false, false, errno
	}
	return pause.rx != 0, pause.tx != 0, nil
}
