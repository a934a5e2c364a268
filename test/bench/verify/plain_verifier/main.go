// A verifier that promises nothing: it checks proofs as the protocol says, keeps the challenges that it has
// seen in memory, and forgets them when it ends. It has no accounts, no revocation and no history. Decisions
// are compared with it: what they cost beyond this is what they are for.
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
)

const (
	maxBody         = 256 * 1024
	challengeWindow = 300
	version         = 1
)

type hybrid struct {
	Ed25519 []byte `json:"ed25519"`
	MLDSA65 []byte `json:"ml_dsa_65"`
}

// Fields in the order of their names, as they are signed.
type certificateFields struct {
	CertID        string            `json:"cert_id"`
	Constraints   []json.RawMessage `json:"constraints"`
	ExpiresAt     int64             `json:"expires_at"`
	IssuedAt      int64             `json:"issued_at"`
	IssuerID      string            `json:"issuer_id"`
	IssuerPubKey  hybrid            `json:"issuer_pub_key"`
	Scope         []string          `json:"scope"`
	SubjectID     string            `json:"subject_id"`
	SubjectPubKey hybrid            `json:"subject_pub_key"`
	Version       int               `json:"version"`
}

type certificate struct {
	certificateFields
	Signature hybrid `json:"signature"`
}

type bundle struct {
	AgentID      string        `json:"agent_id"`
	AgentPubKey  hybrid        `json:"agent_pub_key"`
	Delegations  []certificate `json:"delegations"`
	Challenge    []byte        `json:"challenge"`
	ChallengeAt  int64         `json:"challenge_at"`
	ChallengeSig hybrid        `json:"challenge_sig"`
}

type call struct {
	ProofBundle   bundle `json:"proof_bundle"`
	RequiredScope string `json:"required_scope"`
}

type verifier struct {
	mutex sync.Mutex
	spent map[string]int64
}

func main() {
	v := &verifier{spent: map[string]int64{}}
	http.HandleFunc("POST /v1/service/verify", v.serve)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}

func (v *verifier) serve(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, maxBody))
	if err == nil {
		err = v.verify(body)
	}
	answer := map[string]any{"valid": err == nil}
	if err != nil {
		answer["error_reason"] = err.Error()
	}
	response.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(response).Encode(answer)
}

func (v *verifier) verify(body []byte) error {
	var asked call
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		return err
	}
	proof, now := asked.ProofBundle, time.Now().Unix()
	if len(proof.Delegations) != 1 {
		return errors.New("invalid_chain: one certificate is taken")
	}
	leaf := proof.Delegations[0]
	if err := leaf.check(now); err != nil {
		return err
	}
	if leaf.SubjectID != proof.AgentID || !bytes.Equal(leaf.SubjectPubKey.MLDSA65, proof.AgentPubKey.MLDSA65) ||
		!bytes.Equal(leaf.SubjectPubKey.Ed25519, proof.AgentPubKey.Ed25519) {
		return errors.New("invalid_chain: the agent is another one")
	}
	if len(leaf.Constraints) > 0 {
		return errors.New("constraint_unknown: none is taken")
	}
	if !slices.Contains(leaf.Scope, asked.RequiredScope) {
		return errors.New("scope_denied")
	}
	if now-proof.ChallengeAt > challengeWindow || proof.ChallengeAt > now+challengeWindow {
		return errors.New("stale_challenge")
	}
	signed := binary.BigEndian.AppendUint64(slices.Clone(proof.Challenge), uint64(proof.ChallengeAt))
	if !proof.AgentPubKey.verifies(signed, proof.ChallengeSig) {
		return errors.New("bad_signature: challenge")
	}
	return v.spend(string(proof.Challenge), now)
}

func (c certificate) check(now int64) error {
	if c.Version != version || c.IssuerPubKey.id() != c.IssuerID || c.SubjectPubKey.id() != c.SubjectID {
		return errors.New("invalid_certificate")
	}
	if now < c.IssuedAt || now > c.ExpiresAt {
		return errors.New("expired")
	}
	var signed bytes.Buffer
	encoder := json.NewEncoder(&signed)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(c.certificateFields); err != nil {
		return err
	}
	if !c.IssuerPubKey.verifies(bytes.TrimSuffix(signed.Bytes(), []byte("\n")), c.Signature) {
		return errors.New("bad_signature: certificate")
	}
	return nil
}

func (key hybrid) id() string {
	digest := sha256.Sum256(slices.Concat(key.Ed25519, key.MLDSA65))
	return hex.EncodeToString(digest[:16])
}

func (key hybrid) verifies(message []byte, signature hybrid) bool {
	var public mldsa65.PublicKey
	if len(key.Ed25519) != ed25519.PublicKeySize || public.UnmarshalBinary(key.MLDSA65) != nil {
		return false
	}
	return ed25519.Verify(key.Ed25519, message, signature.Ed25519) &&
		mldsa65.Verify(&public, message, nil, signature.MLDSA65)
}

// Spends a challenge once, and forgets those that are too old to be taken again.
func (v *verifier) spend(challenge string, now int64) error {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if _, known := v.spent[challenge]; known {
		return errors.New("unknown_challenge")
	}
	v.spent[challenge] = now
	for old, at := range v.spent {
		if now-at <= 2*challengeWindow {
			break
		}
		delete(v.spent, old)
	}
	return nil
}
