<?php
// Everybody is the same person here, and is signed in immediately.
$options = require __DIR__ . '/options.php';

$config = [
    'fixed' => [
        'exampleauth:StaticSource',
        'id' => $options['user']['id'],
        'email' => $options['user']['email'],
        'givenname' => $options['user']['first_name'],
        'surname' => $options['user']['last_name'],
    ],
];
