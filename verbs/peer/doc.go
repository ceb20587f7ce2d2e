// Package peer connects two programs by one RC queue pair, each with a buffer that the
// other may write and read: the whole way from an opened device to the first RDMA Write.
//
// One end listens and accepts:
//
//	l, err := peer.Listen(ctx, ":18515")
//	c, err := l.Accept(ctx, dev, make([]byte, 1<<20))
//	err = c.Wait(ctx) // the buffer has been written when the other end closes
//
// the other dials, and works on that buffer:
//
//	c, err := peer.Dial(ctx, dev, "192.0.2.7:18515", make([]byte, 1<<20))
//	err = c.Write(ctx, 0, 0, len(c.Buffer)) // from the one buffer into the other
//	err = c.Close()
//
// It is for programs that need one connection and no more; what needs several queue pairs,
// shared queues or events makes them by package verbs, and finds in Conn's fields what this
// package has made. The ends find each other by TCP, in the messages of package exchange
// and with its trust: whoever can connect to the port may write and read the buffer.
//
// The TCP connection stays until Close. It carries nothing, and by its end the other side
// knows of this one's.
//
// On a simulated device Dial, Accept and what a Conn does belong into a function of
// verbs.Run, like all that takes time there; the TCP address is the machine's own.
package peer
