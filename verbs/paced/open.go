package paced

import (
	"errors"

	"github.com/sluice-rdma/sluice/verbs"
)

// Open opens a device by name, such as "soft:eth0", and wraps it with DefaultConfig and a
// rate engine, such as "timely". Closing the Shim closes the device.
func Open(name, scheme string) (*Shim, error) {
	dev, err := verbs.Open(name)
	if err != nil {
		return nil, err
	}
	config := DefaultConfig()
	config.Scheme = scheme
	s, err := Wrap(dev, config)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return s, nil
}
