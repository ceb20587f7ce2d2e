package ucma

import (
	"encoding/binary"
	"net/netip"
	"syscall"
)

// The ABI of /dev/infiniband/rdma_cm: <rdma/rdma_user_cm.h>, <rdma/ib_user_sa.h> and
// <rdma/ib_user_verbs.h>. Numbers are in the host's order unless said otherwise, and
// fields lie where the C compilers of 64-bit systems put them.

// Commands.
const (
	cmdCreateID = iota
	cmdDestroyID
	cmdBindIP
	cmdResolveIP
	cmdResolveRoute
	cmdQueryRoute
	cmdConnect
	cmdListen
	cmdAccept
	cmdReject
	cmdDisconnect
	cmdInitQPAttr
	cmdGetEvent
	cmdGetOption
	cmdSetOption
	cmdNotify
	cmdJoinIPMcast
	cmdLeaveMcast
	cmdMigrateID
	cmdQuery
	cmdBind
	cmdResolveAddr
	cmdJoinMcast
	numCommands
)

// Events (enum rdma_cm_event_type).
const (
	evAddrResolved    = 0
	evRouteResolved   = 2
	evConnectRequest  = 4
	evConnectResponse = 5
	evUnreachable     = 7
	evRejected        = 8
	evEstablished     = 9
	evDisconnected    = 10
	evDeviceRemoval   = 11
	evTimeWaitExit    = 15
)

// Options of SET_OPTION, all of the level RDMA_OPTION_ID.
const (
	optionTOS        = 0
	optionReuseAddr  = 1
	optionAFOnly     = 2
	optionAckTimeout = 3
)

// What QUERY asks for.
const (
	queryAddr = 0
	queryPath = 1
	queryGID  = 2
)

const (
	headerBytes = 8
	maxPrivate  = 256 // RDMA_MAX_PRIVATE_DATA
	udpQKey     = 0x01234567

	afInet  = 2
	afInet6 = 10
	afIB    = 27

	inBytes      = 16  // struct sockaddr_in
	in6Bytes     = 28  // struct sockaddr_in6
	ibBytes      = 48  // struct sockaddr_ib
	storageBytes = 128 // struct sockaddr_storage

	connParamBytes = 272
	ahAttrBytes    = 32
	eventBytes     = 336
	qpAttrBytes    = 144
	routeBytes     = 208
	addrBytes      = 280
	pathBytes      = 8 + 72
)

// bodyBytes are the lengths of the structs that follow the header; those of CONNECT and
// ACCEPT may lack their ends, which then are zeros.
var bodyBytes = [numCommands]int{
	cmdCreateID: 24, cmdDestroyID: 16, cmdBindIP: 40, cmdResolveIP: 64, cmdResolveRoute: 8, cmdQueryRoute: 16,
	cmdConnect: 288, cmdListen: 8, cmdAccept: 296, cmdReject: 264, cmdDisconnect: 4, cmdInitQPAttr: 16, cmdGetEvent: 8,
	cmdSetOption: 24, cmdNotify: 8, cmdJoinIPMcast: 48, cmdLeaveMcast: 16, cmdMigrateID: 16, cmdQuery: 16, cmdBind: 136,
	cmdResolveAddr: 272, cmdJoinMcast: 152,
}

// command is a command as a program wrote it.
type command struct {
	op   uint32
	out  int // room for the response
	body []byte

	option uint32 // SET_OPTION's value, once it is read
}

// parse takes a command apart. Its body is as long as bodyBytes says.
func parse(b []byte) (c command, errno syscall.Errno) {
	if len(b) < headerBytes {
		return c, syscall.EINVAL
	}
	c.op = binary.NativeEndian.Uint32(b)
	in := int(binary.NativeEndian.Uint16(b[4:]))
	c.out = int(binary.NativeEndian.Uint16(b[6:]))
	if c.op >= numCommands || in > len(b)-headerBytes {
		return c, syscall.EINVAL
	}
	c.body = b[headerBytes : headerBytes+in]
	want := bodyBytes[c.op]
	switch {
	case want == 0:
		return c, syscall.ENOSYS
	case in >= want:
		c.body = c.body[:want]
	case c.op == cmdConnect || c.op == cmdAccept:
		c.body = append(make([]byte, 0, want), c.body...)[:want]
	default:
		return c, syscall.EINVAL
	}
	return c, 0
}

func (c *command) u8(off int) uint8   { return c.body[off] }
func (c *command) u16(off int) uint16 { return binary.NativeEndian.Uint16(c.body[off:]) }
func (c *command) u32(off int) uint32 { return binary.NativeEndian.Uint32(c.body[off:]) }
func (c *command) u64(off int) uint64 { return binary.NativeEndian.Uint64(c.body[off:]) }

// id returns the place of a command's identifier.
func (c *command) id() uint32 {
	switch c.op {
	case cmdDestroyID, cmdQueryRoute, cmdQuery, cmdInitQPAttr, cmdSetOption, cmdLeaveMcast, cmdMigrateID:
		return c.u32(8)
	case cmdBindIP:
		return c.u32(36)
	case cmdResolveIP:
		return c.u32(56)
	case cmdConnect:
		return c.u32(272)
	case cmdAccept:
		return c.u32(280)
	}
	return c.u32(0)
}

// sockaddr reads an address; the zero AddrPort stands for none. size is what the command
// says of its length, negative if it does not.
func sockaddr(b []byte, size int) (netip.AddrPort, syscall.Errno) {
	port := binary.BigEndian.Uint16(b[2:])
	switch family := binary.NativeEndian.Uint16(b); {
	case family == 0 && size <= 0:
		return netip.AddrPort{}, 0
	case family == afInet && (size < 0 || size == inBytes):
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port), 0
	case family == afInet6 && (size < 0 || size == in6Bytes):
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])).Unmap(), port), 0
	case family == afIB && (size < 0 || size == ibBytes):
		return netip.AddrPort{}, syscall.EAFNOSUPPORT
	}
	return netip.AddrPort{}, syscall.EINVAL
}

// putSockaddr writes an address, nothing if it is the zero one, and returns its length.
func putSockaddr(b []byte, a netip.AddrPort) int {
	ip := a.Addr()
	switch {
	case ip.Is4():
		binary.NativeEndian.PutUint16(b, afInet)
		v := ip.As4()
		copy(b[4:], v[:])
	case ip.Is6():
		binary.NativeEndian.PutUint16(b, afInet6)
		v := ip.As16()
		copy(b[8:], v[:])
	default:
		return 0
	}
	binary.BigEndian.PutUint16(b[2:], a.Port())
	if ip.Is4() {
		return inBytes
	}
	return in6Bytes
}

// connParam is struct rdma_ucm_conn_param.
type connParam struct {
	qpn, qkey                          uint32
	private                            []byte
	srq, flowControl, valid            bool
	responderResources, initiatorDepth uint8
	retryCount, rnrRetryCount          uint8
}

// decode reads a struct. Its private data share b's memory.
func (p *connParam) decode(b []byte) {
	*p = connParam{
		qpn: binary.NativeEndian.Uint32(b), qkey: binary.NativeEndian.Uint32(b[4:]),
		srq: b[265] != 0, responderResources: b[266], initiatorDepth: b[267], flowControl: b[268] != 0,
		retryCount: b[269], rnrRetryCount: b[270], valid: b[271] != 0,
	}
	p.private = b[8 : 8+int(b[264])]
}

// put writes a struct to b, which is zero.
func (p *connParam) put(b []byte) {
	binary.NativeEndian.PutUint32(b, p.qpn)
	binary.NativeEndian.PutUint32(b[4:], p.qkey)
	b[264] = uint8(copy(b[8:8+maxPrivate-1], p.private))
	b[265], b[266], b[267] = bit(p.srq), p.responderResources, p.initiatorDepth
	b[268], b[269], b[270] = bit(p.flowControl), p.retryCount, p.rnrRetryCount
}

func bit(v bool) uint8 {
	if v {
		return 1
	}
	return 0
}

// ahAttr is struct ib_uverbs_ah_attr of a RoCE path.
type ahAttr struct {
	dgid                   netip.Addr
	flowLabel              uint32
	sgidIndex              uint8
	hopLimit, trafficClass uint8
	sl, port               uint8
}

func (a *ahAttr) put(b []byte) {
	if a.dgid.IsValid() {
		g := a.dgid.As16()
		copy(b, g[:])
	}
	binary.NativeEndian.PutUint32(b[16:], a.flowLabel)
	b[20], b[21], b[22] = a.sgidIndex, a.hopLimit, a.trafficClass
	b[26], b[29], b[30] = a.sl, 1, a.port
}

// event is struct rdma_ucm_event_resp. One of conn and ud counts.
type event struct {
	uid    uint64
	id     uint32
	kind   uint32
	status int32
	isUD   bool
	conn   connParam
	ud     udParam
}

// udParam is struct rdma_ucm_ud_param.
type udParam struct {
	qpn, qkey uint32
	ah        ahAttr
	private   []byte
}

func (e *event) put() []byte {
	b := make([]byte, eventBytes)
	binary.NativeEndian.PutUint64(b, e.uid)
	binary.NativeEndian.PutUint32(b[8:], e.id)
	binary.NativeEndian.PutUint32(b[12:], e.kind)
	binary.NativeEndian.PutUint32(b[16:], uint32(e.status))
	if param := b[20:]; e.isUD {
		binary.NativeEndian.PutUint32(param, e.ud.qpn)
		binary.NativeEndian.PutUint32(param[4:], e.ud.qkey)
		if e.ud.ah != (ahAttr{}) {
			e.ud.ah.put(param[8:])
		}
		param[296] = uint8(copy(param[40:40+maxPrivate-1], e.ud.private))
	} else {
		e.conn.put(param)
	}
	return b
}

// qpAttr is struct ib_uverbs_qp_attr as far as INIT_QP_ATTR fills it in.
type qpAttr struct {
	mask, state, pathMTU, qkey, rqPSN, sqPSN, destQPN, access uint32
	ah                                                        ahAttr
	hasAH                                                     bool
	maxRdAtomic, maxDestRdAtomic, minRNRTimer, port           uint8
	timeout, retryCnt, rnrRetry                               uint8
}

func (a *qpAttr) put() []byte {
	b := make([]byte, qpAttrBytes)
	for i, v := range []uint32{a.mask, a.state, 0, a.pathMTU, 0, a.qkey, a.rqPSN, a.sqPSN, a.destQPN, a.access} {
		binary.NativeEndian.PutUint32(b[4*i:], v)
	}
	if a.hasAH {
		a.ah.put(b[40:])
	}
	b[130], b[131], b[132], b[133] = a.maxRdAtomic, a.maxDestRdAtomic, a.minRNRTimer, a.port
	b[134], b[135], b[136] = a.timeout, a.retryCnt, a.rnrRetry
	return b
}

// route holds an identifier's route for QUERY_ROUTE and QUERY.
type route struct {
	guid                       uint64
	port                       uint8 // 0 without a device
	src, dst                   netip.AddrPort
	sgid, dgid                 netip.Addr
	resolved                   bool // there is a path
	mtu, rate, lifetime        uint8
	hopLimit, trafficClass, sl uint8
	flowLabel                  uint32
}

const (
	pkey       = 0xffff
	noDevice   = 0xffffffff // an index that says nothing: the node GUID counts
	exactly    = 2          // a selector of the subnet administrator's
	isPrimary  = 0x2b       // IB_PATH_GMP, PRIMARY and BIDIRECTIONAL
	reversible = 1 << 7
)

func putGID(b []byte, a netip.Addr) {
	if a.IsValid() {
		g := a.As16()
		copy(b, g[:])
	}
}

// routeResponse is struct rdma_ucm_query_route_resp.
func (r *route) routeResponse() []byte {
	b := make([]byte, routeBytes)
	binary.BigEndian.PutUint64(b, r.guid)
	if r.port != 0 {
		p := b[8:]
		putGID(p, r.dgid)
		putGID(p[16:], r.sgid)
		binary.BigEndian.PutUint16(p[52:], pkey)
		if r.resolved {
			binary.NativeEndian.PutUint32(b[192:], 1)
			binary.BigEndian.PutUint32(p[40:], r.flowLabel)
			binary.NativeEndian.PutUint32(p[44:], 1)
			binary.NativeEndian.PutUint32(p[48:], uint32(r.mtu))
			p[54], p[55], p[56], p[57] = r.hopLimit, r.trafficClass, 1, r.sl
			p[58], p[59], p[60], p[61], p[62] = exactly, exactly, r.rate, exactly, r.lifetime
		}
	}
	putSockaddr(b[136:164], r.src)
	putSockaddr(b[164:192], r.dst)
	b[196] = r.port
	binary.NativeEndian.PutUint32(b[200:], noDevice)
	return b
}

// addrResponse is struct rdma_ucm_query_addr_resp.
func (r *route) addrResponse() []byte {
	b := r.deviceResponse()
	binary.NativeEndian.PutUint16(b[12:], uint16(putSockaddr(b[16:], r.src)))
	binary.NativeEndian.PutUint16(b[14:], uint16(putSockaddr(b[16+storageBytes:], r.dst)))
	return b
}

// gidResponse is the same struct with addresses of InfiniBand.
func (r *route) gidResponse() []byte {
	b := r.deviceResponse()
	binary.NativeEndian.PutUint16(b[12:], ibBytes)
	binary.NativeEndian.PutUint16(b[14:], ibBytes)
	for i, g := range []netip.Addr{r.sgid, r.dgid} {
		s := b[16+i*storageBytes:]
		binary.NativeEndian.PutUint16(s, afIB)
		binary.BigEndian.PutUint16(s[2:], pkey)
		if r.port != 0 {
			putGID(s[8:], g)
		}
	}
	return b
}

func (r *route) deviceResponse() []byte {
	b := make([]byte, addrBytes)
	binary.BigEndian.PutUint64(b, r.guid)
	b[8] = r.port
	if r.port != 0 {
		binary.BigEndian.PutUint16(b[10:], pkey)
	}
	binary.NativeEndian.PutUint32(b[272:], noDevice)
	return b
}

// pathResponse is struct rdma_ucm_query_path_resp; its path is in the subnet
// administrator's form (IBA 15.2.5.16).
func (r *route) pathResponse() []byte {
	b := make([]byte, pathBytes)
	if !r.resolved {
		return b[:8]
	}
	binary.NativeEndian.PutUint32(b, 1)
	binary.NativeEndian.PutUint32(b[8:], isPrimary)
	p := b[16:]
	putGID(p[8:], r.dgid)
	putGID(p[24:], r.sgid)
	binary.BigEndian.PutUint32(p[44:], r.flowLabel<<8|uint32(r.hopLimit))
	p[48], p[49] = r.trafficClass, reversible|1
	binary.BigEndian.PutUint16(p[50:], pkey)
	binary.BigEndian.PutUint16(p[52:], uint16(r.sl))
	p[54], p[55], p[56] = exactly<<6|r.mtu, exactly<<6|r.rate, exactly<<6|r.lifetime
	return b
}
