// Kv is a key-value toy: the server registers a table and then does nothing;
// clients put values by RDMA Write and get them by RDMA Read, over paced queue
// pairs. One-sided locks (RDMA atomics) keep writers apart, and a checksum tells a
// reader that it read while somebody wrote.
//
//	go run ./examples/kv -d soft:eth0 serve
//	go run ./examples/kv -d soft:eth0 -server HOST:7475 put colour green
//	go run ./examples/kv -d soft:eth0 -server HOST:7475 get colour
//	go run ./examples/kv try                               both ends in one process
//
// With -reconnect 10s a client that loses its connection connects anew, repeats the request, and prints how long it took.
//
// Built with -tags ibverbs it takes ibv:mlx5_0 and the like. What it is not: a
// store. A client that dies with a lock held leaves it held.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	_ "github.com/sluice-rdma/sluice/cc/all"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kv:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("kv", flag.ContinueOnError)
	device := flags.String("d", "soft:127.0.0.1", "RDMA device")
	other := flags.String("client-device", "soft:127.0.0.2", "RDMA device of the client, for try")
	gid := flags.Int("x", -1, "index of the device's address; -1 takes the one by which the other end is reached")
	listen := flags.String("listen", ":7475", "TCP address of the server")
	server := flags.String("server", "127.0.0.1:7475", "TCP address at which clients find it")
	engine := flags.String("cc", "timely", "rate engine that paces the client")
	reconnect := flags.Duration("reconnect", 0, "how long a request may take to connect anew and repeat itself when it loses its connection; 0 is an error at once")
	keys := flags.Int("n", 100, "how many keys to try")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *reconnect < 0 {
		return fmt.Errorf("-reconnect %v: give a time, or 0 for none", *reconnect)
	}
	ends := settings{device: *device, engine: *engine, server: *server, gid: *gid, reconnect: *reconnect, outage: func(took time.Duration) {
		fmt.Fprintf(os.Stderr, "kv: connected anew: an outage of %v\n", took.Round(time.Microsecond)) // values go to out
	}}
	switch command, rest := flags.Arg(0), flags.NArg()-1; {
	case command == "serve" && rest == 0:
		s, err := newServer(*device, *gid)
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp", *listen)
		if err != nil {
			return errors.Join(err, s.close())
		}
		fmt.Fprintf(out, "%d slots of %d bytes, at %v\n", slots, slotBytes, l.Addr())
		return errors.Join(s.serve(l), s.close())
	case command == "put" && rest == 2:
		return withClient(ends, func(c *client) error { return c.put(flags.Arg(1), []byte(flags.Arg(2))) })
	case command == "get" && rest == 1:
		return withClient(ends, func(c *client) error {
			value, err := c.get(flags.Arg(1))
			if err == nil {
				_, err = fmt.Fprintf(out, "%s\n", value)
			}
			return err
		})
	case command == "try" && rest == 0:
		ends.device = *other
		return try(*device, ends, *keys, out)
	}
	return errors.New("give a command: serve, put KEY VALUE, get KEY, or try")
}

func withClient(ends settings, do func(*client) error) error {
	c, err := dial(ends)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.close())
}
