// Package bounds has the bounds of the NIC's parameters, and checks them.
package bounds
