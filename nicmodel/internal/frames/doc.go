// Package frames is the packets in flight, as the NICs of one network know them: their transport headers and payloads.
package frames
