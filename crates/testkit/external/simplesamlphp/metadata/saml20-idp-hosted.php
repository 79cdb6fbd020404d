<?php
// The provider itself.
$metadata['__DYNAMIC:1__'] = [
    'host' => '__DEFAULT__',
    'auth' => 'fixed',
    'privatekey' => 'first.key',
    'certificate' => 'first.pem',
    'signature.algorithm' => 'http://www.w3.org/2001/04/xmldsig-more#rsa-sha256',
];
