// Package rdmacm connects queue pairs by IP address and port, as librdmacm does
// and with its protocol on the wire: either end may be a Linux program that uses
// rdma_connect and rdma_accept. Package verbs/internal/cm is the protocol; this package
// drives it over a device that can send management datagrams (verbs.MADDevice).
//
// One end listens:
//
//	l, err := rdmacm.Listen(dev, netip.MustParseAddrPort("0.0.0.0:7174"))
//	req, err := l.Accept(ctx)               // somebody wants to connect
//	qp, err := pd.CreateQP(...)
//	p := rdmacm.DefaultParams()
//	err = rdmacm.Init(qp, p)                // and post receives
//	conn, err := req.Accept(ctx, qp, p)     // or req.Reject
//
// the other dials:
//
//	qp, err := pd.CreateQP(...)
//	conn, err := rdmacm.Dial(ctx, dev, netip.MustParseAddrPort("10.77.0.2:7174"), qp, p)
//
// Both bring the queue pair from RESET or INIT to RTS with what the two sides agreed on
// (Conn.Parameters). It stays the application's: nothing here destroys it. When
// the connection ends, Conn.Done is closed and the queue pair is in the error
// state, so that what is still posted comes back flushed.
//
// The queue pair may be that of a device that wraps another, such as package
// paced's: Listen and Dial take either device.
//
// # Concurrency
//
// All functions and methods may be called from several goroutines at once.
package rdmacm
