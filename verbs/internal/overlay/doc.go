// Package overlay lays a device over another one: its queue pairs, completion queues
// and completion channels represent those of the device below. What a layer knows of a
// completion, beyond the verbs.WC, is available until the next Poll. Packages
// wirestamp and wiretag are such layers: programs at the hooks of a network interface
// look at the packets of reliable connections for them.
//
// What a layer does on its own is in a Layer and in its queue pairs, of type Q, each of
// which embeds a *QP; V is what it knows of a completion. Queue pairs of other types
// than RC, memory regions and SRQs are those of the device below.
package overlay
