package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// try serves on one device, and puts and gets keys on the other, in one process.
func try(device string, ends settings, keys int, out io.Writer) (err error) {
	s, err := newServer(device, ends.gid)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, s.close())
	}
	served := make(chan error, 1)
	go func() { served <- s.serve(l) }()
	defer func() { err = errors.Join(err, l.Close(), <-served, s.close()) }()

	ends.server = l.Addr().String()
	c, err := dial(ends)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	start, total := time.Now(), 0
	value := func(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8)}, i*mostValue/(2*keys)) }
	for i := range keys {
		if err := c.put(fmt.Sprint("key ", i), value(i)); err != nil {
			return err
		}
	}
	for i := range keys {
		got, err := c.get(fmt.Sprint("key ", i))
		if err != nil {
			return err
		}
		if !bytes.Equal(got, value(i)) {
			return fmt.Errorf("key %d has another value than was put", i)
		}
		total += len(got)
	}
	if _, err := c.get("no key"); !errors.Is(err, errAbsent) {
		return fmt.Errorf("a key that was not put: %w", err)
	}
	_, err = fmt.Fprintf(out, "%d keys put and got, %d bytes each way, in %v\n", keys, total, time.Since(start).Round(time.Millisecond))
	return err
}
